/* An MPI whose collectives take 150 ms for long vectors, preloaded behind the preload library. Messages are
 * as fast as ever, and so is what the library makes of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

enum { kLong = 5000 };

static void* slow(const char* name, int count) {
  const struct timespec pause = {0, 150000000};
  if (count >= kLong) nanosleep(&pause, 0);
  return dlsym(RTLD_NEXT, name);
}

/* Handles of any MPI fit in a pointer, and MPI takes as much of it as it needs. */
typedef int scatter_function(const void*, void*, int, void*, void*, void*);
typedef int gather_function(const void*, int, void*, void*, int, void*, void*);
typedef int bcast_function(void*, int, void*, int, void*);
typedef int reduce_function(const void*, void*, int, void*, void*, int, void*);

scatter_function PMPI_Reduce_scatter_block;
int PMPI_Reduce_scatter_block(const void* in, void* out, int count, void* type, void* op, void* comm) {
  scatter_function* real;
  *(void**)&real = slow("PMPI_Reduce_scatter_block", count);
  return real(in, out, count, type, op, comm);
}

gather_function PMPI_Allgather;
int PMPI_Allgather(const void* in, int sent, void* of, void* out, int count, void* type, void* comm) {
  gather_function* real;
  *(void**)&real = slow("PMPI_Allgather", count);
  return real(in, sent, of, out, count, type, comm);
}

bcast_function PMPI_Bcast;
int PMPI_Bcast(void* buffer, int count, void* type, int root, void* comm) {
  bcast_function* real;
  *(void**)&real = slow("PMPI_Bcast", count);
  return real(buffer, count, type, root, comm);
}

reduce_function PMPI_Reduce;
int PMPI_Reduce(const void* in, void* out, int count, void* type, void* op, int root, void* comm) {
  reduce_function* real;
  *(void**)&real = slow("PMPI_Reduce", count);
  return real(in, out, count, type, op, root, comm);
}
