/* An MPI in which the functions fail that TEST_FAILS names, preloaded: PMPI_Comm_split_type, or
 * PMPI_Allreduce of long vectors of the program's own, which the library's messages and its other calls do
 * not need. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { kSomeError = 15, kLong = 100000 };

/* Handles of any MPI fit in a pointer, and MPI takes as much of it as it needs. */
typedef int split_function(void*, int, int, void*, void*);
typedef int allreduce_function(const void*, void*, int, void*, void*, void*);

static int fails(const char* name) {
  const char* const named = getenv("TEST_FAILS");
  return named != 0 && strcmp(named, name) == 0;
}

split_function PMPI_Comm_split_type;
int PMPI_Comm_split_type(void* comm, int type, int key, void* info, void* made) {
  split_function* real;
  if (fails("PMPI_Comm_split_type")) return kSomeError;
  *(void**)&real = dlsym(RTLD_NEXT, "PMPI_Comm_split_type");
  return real(comm, type, key, info, made);
}

allreduce_function PMPI_Allreduce;
int PMPI_Allreduce(const void* in, void* out, int count, void* type, void* op, void* comm) {
  allreduce_function* real;
  if (count >= kLong && fails("PMPI_Allreduce")) return kSomeError;
  *(void**)&real = dlsym(RTLD_NEXT, "PMPI_Allreduce");
  return real(in, out, count, type, op, comm);
}
