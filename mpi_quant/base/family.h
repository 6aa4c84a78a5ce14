/* The families of MPI libraries, which differ in their handles: "mpich" (and all with its ABI), "openmpi",
 * and "abi", the standard ABI of MPI 5. Some libraries are compiled for one family; the preload library is
 * compiled for none. All of them ask here which family the process runs. */
#ifndef MPI_QUANT_BASE_FAMILY_H
#define MPI_QUANT_BASE_FAMILY_H

#include <stdint.h>
#include <string.h>

/* Enough for any MPI library: MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH, 256 in Open MPI. */
enum { MPIQ_VERSION_BYTES = 16384 };

/* The version of the standard ABI that "abi" stands for (MPI 5.0, section 20.2). */
enum { MPIQ_ABI_MAJOR = 1 };

/* Type of PMPI_Abi_get_version. */
typedef int (*mpiq_get_abi_version)(int* major, int* minor);

/* The major version of the standard ABI that a library's handles are of. -1 if they are of none. Not that the
 * function exists decides, but what it returns: libraries have it beside handles of their own. null: the
 * library has no such function. */
static inline int mpiq_abi_major(mpiq_get_abi_version get) {
  int major = -1, minor = -1;
  return get != NULL && get(&major, &minor) == 0 && major > 0 ? major : -1;
}

/* The family by the text of MPI_Get_library_version and by mpiq_abi_major. Null for another library. */
static inline const char* mpiq_family_of(const char* version, int abi_major) {
  /* Libraries with MPICH's ABI have names of their own. */
  static const char* const mpich[] = {"MPICH", "Intel(R) MPI", "MVAPICH", "MPI VERSION    : CRAY MPICH"};
  size_t i;
  /* Whoever has these handles may have any text. */
  if (abi_major > 0) return abi_major == MPIQ_ABI_MAJOR ? "abi" : NULL;
  /* At the beginning only: a translator (MPItrampoline's MPIwrapper) has handles of its own, and cites the
   * text of the library beneath it. */
  if (strncmp(version, "Open MPI", strlen("Open MPI")) == 0) return "openmpi";
  for (i = 0; i < sizeof mpich / sizeof mpich[0]; ++i)
    if (strncmp(version, mpich[i], strlen(mpich[i])) == 0) return "mpich";
  return NULL;
}

/* MPI_COMM_WORLD of a family, as a word that holds handles of all. openmpi_world: the address of Open MPI's
 * ompi_mpi_comm_world, which only its own family needs. */
static inline intptr_t mpiq_world_of(const char* family, const void* openmpi_world) {
  if (strcmp(family, "openmpi") == 0) return (intptr_t)openmpi_world;
  return strcmp(family, "abi") == 0 ? 0x101 : 0x44000000;
}

#endif
