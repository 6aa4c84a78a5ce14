/* A library that translates between MPIs: handles of its own, of 8 bytes, and a version that cites the MPI
 * beneath it. With -DPROGRAM: a program that is compiled for it. Under the preload library its sum is the
 * translator's own. ABI in the environment is the version of the standard ABI that it claims to have, or
 * "fails". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opaque {
  long word;
} * handle;
int MPI_Init(int*, char***);
int PMPI_Init(int*, char***);
int PMPI_Initialized(int*);
int PMPI_Get_library_version(char*, int*);
int PMPI_Abi_get_version(int*, int*);
int PMPI_Comm_size(handle, int*);
int MPI_Allreduce(const void*, void*, int, handle, handle, handle);
int PMPI_Allreduce(const void*, void*, int, handle, handle, handle);

#define WORLD ((handle)(intptr_t)0x123456789abcdef0)
enum { kN = 100000 };

#ifdef PROGRAM
int main(int argc, char** argv) {
  float* const x = calloc(2 * (size_t)kN, sizeof *x);
  int i;
  MPI_Init(&argc, &argv);
  for (i = 0; i < kN; ++i) x[i] = (float)i;
  if (MPI_Allreduce(x, x + kN, kN, NULL, NULL, WORLD) != 0) return 1;
  puts(memcmp(x, x + kN, kN * sizeof *x) == 0 ? "exact" : "changed");
  free(x);
  return 0;
}
#else
static int initialized = 0;
int PMPI_Init(int* argc, char*** argv) {
  (void)argc;
  (void)argv;
  initialized = 1;
  return 0;
}
int MPI_Init(int* argc, char*** argv) { return PMPI_Init(argc, argv); }
int PMPI_Initialized(int* flag) {
  *flag = initialized;
  return 0;
}
int PMPI_Get_library_version(char* version, int* length) {
  const char* const beneath = getenv("BENEATH");
  *length =
      sprintf(version, "MPIwrapper 2.11.0, using MPIABI 2.10, wrapping:\n%s", beneath != NULL ? beneath : "");
  return 0;
}
int PMPI_Abi_get_version(int* major, int* minor) {
  const char* const abi = getenv("ABI");
  *major = abi != NULL ? atoi(abi) : -1;
  *minor = *major > 0 ? 0 : -1;
  if (abi == NULL || strcmp(abi, "fails") != 0) return 0;
  *major = 1; /* which an error makes void */
  return 1;
}
static void check(handle comm) {
  if (comm == WORLD) return;
  puts("half a handle");
  exit(1);
}
int PMPI_Comm_size(handle comm, int* size) {
  check(comm);
  *size = 2;
  return 0;
}
int PMPI_Allreduce(const void* from, void* to, int count, handle type, handle op, handle comm) {
  (void)type;
  (void)op;
  check(comm);
  memcpy(to, from, (size_t)count * sizeof(float));
  return 0;
}
int MPI_Allreduce(const void* from, void* to, int count, handle type, handle op, handle comm) {
  return PMPI_Allreduce(from, to, count, type, op, comm);
}
#endif
