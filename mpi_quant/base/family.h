/* The two families of MPI libraries, which differ in the size of handles. Separate because libraries that are
 * compiled for one, and the preload library, which is compiled for none, ask which one the process runs. */
#ifndef MPI_QUANT_BASE_FAMILY_H
#define MPI_QUANT_BASE_FAMILY_H

#include <string.h>

/* Room for any MPI_Get_library_version: MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH, 256 in Open MPI. */
enum { MPIQ_VERSION_BYTES = 16384 };

/* "mpich" or "openmpi", of what MPI_Get_library_version says; null for another. */
static inline const char* mpiq_family_of(const char* version) {
  if (strstr(version, "Open MPI") != NULL) return "openmpi";
  /* Those that share MPICH's ABI name themselves. */
  if (strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL ||
      strstr(version, "MVAPICH") != NULL)
    return "mpich";
  return NULL;
}

#endif
