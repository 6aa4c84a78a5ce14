/* mpiq-shim-cost: what libmpi_quant_pmpi.so adds to an MPI_Allreduce it does not compress, in nanoseconds a
 * call.
 *
 * Linked with the library, which knows the address of MPI's own MPI_Allreduce. One rank
 * (MPI_COMM_SELF, in place), so that the call itself costs as little as it ever can. Blocks of calls
 * alternate; the medians of the blocks are compared. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi_quant/base/front.h"

extern const mpiq_front mpiq_front_v1;

enum { kBlocks = 301, kCalls = 20000 };

typedef int (*Allreduce)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double block_ns(Allreduce f, void* buffer, int count, MPI_Datatype type) {
  const double start = now_ns();
  int i;
  for (i = 0; i < kCalls; ++i) f(MPI_IN_PLACE, buffer, count, type, MPI_SUM, MPI_COMM_SELF);
  return (now_ns() - start) / kCalls;
}

static void compare(const char* what, int count, MPI_Datatype type) {
  static double shim[kBlocks], mpi[kBlocks], added[kBlocks];
  void* const address = mpiq_front_v1.real("PMPI_Allreduce");
  Allreduce real;
  void* buffer = calloc((size_t)count, sizeof(double));
  int b;
  memcpy(&real, &address, sizeof real); /* ISO C has no cast for it */
  for (b = 0; b < kBlocks; ++b) {
    mpi[b] = block_ns(real, buffer, count, type);
    shim[b] = block_ns(MPI_Allreduce, buffer, count, type);
    added[b] = shim[b] - mpi[b];
  }
  qsort(shim, kBlocks, sizeof shim[0], by_value);
  qsort(mpi, kBlocks, sizeof mpi[0], by_value);
  qsort(added, kBlocks, sizeof added[0], by_value);
  printf("%-44s %10.1f %10.1f %10.1f\n", what, mpi[kBlocks / 2], shim[kBlocks / 2], added[kBlocks / 2]);
  free(buffer);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  printf("%-44s %10s %10s %10s\n", "call (ns, medians of blocks of calls)", "MPI", "shim", "added");
  compare("1 float: below every size", 1, MPI_FLOAT);
  compare("16384 ints: large enough, not a float", 16384, MPI_INT);
  compare("16384 floats: eligible, but one rank", 16384, MPI_FLOAT);
  MPI_Finalize();
  return 0;
}
