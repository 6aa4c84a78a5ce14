/* Preloaded: to the other ranks, this process has another version of the library. It changes the message of
 * the first large sum, which begins with the version and its complement (compare in comm_state.cpp). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

enum { kCompared = 8 };

/* Handles of any MPI fit in a pointer, and MPI takes as much of it as it needs. */
typedef int iallreduce_function(const void*, void*, int, void*, void*, void*, void*);

iallreduce_function PMPI_Iallreduce;
int PMPI_Iallreduce(const void* in, void* out, int count, void* type, void* op, void* comm, void* request) {
  static uint64_t changed[kCompared]; /* until the request ends */
  iallreduce_function* real;
  *(void**)&real = dlsym(RTLD_NEXT, "PMPI_Iallreduce");
  if (count != kCompared || changed[0] != 0) return real(in, out, count, type, op, comm, request);
  memcpy(changed, in, sizeof changed);
  changed[1] = ~++changed[0];
  return real(changed, out, count, type, op, comm, request);
}
