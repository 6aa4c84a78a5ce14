/* The two families of MPI libraries, whose handles differ in size. The libraries that are compiled for one
 * family, and the preload library, which is compiled for none, ask here which family the process runs. */
#ifndef MPI_QUANT_BASE_FAMILY_H
#define MPI_QUANT_BASE_FAMILY_H

#include <string.h>

/* Enough for any MPI library: MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH, 256 in Open MPI. */
enum { MPIQ_VERSION_BYTES = 16384 };

/* "mpich" or "openmpi", by the text of MPI_Get_library_version; null for another library. */
static inline const char* mpiq_family_of(const char* version) {
  if (strstr(version, "Open MPI") != NULL) return "openmpi";
  /* Libraries with MPICH's ABI have names of their own. */
  if (strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL ||
      strstr(version, "MVAPICH") != NULL)
    return "mpich";
  return NULL;
}

#endif
