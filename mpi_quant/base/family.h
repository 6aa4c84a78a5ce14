/* The two families of MPI libraries, whose handles differ in size. The libraries that are compiled for one
 * family, and the preload library, which is compiled for none, ask here which family the process runs. */
#ifndef MPI_QUANT_BASE_FAMILY_H
#define MPI_QUANT_BASE_FAMILY_H

#include <string.h>

/* Enough for any MPI library: MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH, 256 in Open MPI. */
enum { MPIQ_VERSION_BYTES = 16384 };

/* "mpich" or "openmpi", by the text of MPI_Get_library_version; null for another library. */
static inline const char* mpiq_family_of(const char* version) {
  /* Libraries with MPICH's ABI have names of their own. */
  static const char* const mpich[] = {"MPICH", "Intel(R) MPI", "MVAPICH", "MPI VERSION    : CRAY MPICH"};
  size_t i;
  /* At the beginning only: a translator (MPItrampoline's MPIwrapper) has handles of its own, and cites the
   * text of the library beneath it. */
  if (strncmp(version, "Open MPI", strlen("Open MPI")) == 0) return "openmpi";
  for (i = 0; i < sizeof mpich / sizeof mpich[0]; ++i)
    if (strncmp(version, mpich[i], strlen(mpich[i])) == 0) return "mpich";
  return NULL;
}

#endif
