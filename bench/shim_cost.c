/* mpiq-shim-cost: what libmpi_quant_pmpi.so adds to an MPI_Allreduce it does not compress, in nanoseconds a
 * call; and, on two ranks or more, what the way to a rule adds to one it does compress, compared with calling
 * MPIQ_Allreduce.
 *
 * Linked with the library, which knows the address of MPI's own MPI_Allreduce. One rank
 * (MPI_COMM_SELF, in place), so that the call itself costs as little as it ever can. Blocks of calls
 * alternate; the medians of the blocks are compared. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/program.h"
#include "mpi_quant.h"
#include "mpi_quant/base/stub.h"

extern const mpiq_stub mpiq_stub_v1;

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
  void* const address = mpiq_stub_v1.real("PMPI_Allreduce");
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

static int with_key(const void* sendbuf, void* recvbuf, int count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm) {
  MPI_Pcontrol(MPIQ_PCONTROL, "key=k");
  return MPI_Allreduce(sendbuf, recvbuf, count, type, op, comm);
}

static MPI_Info key_info;
static int explicit_call(const void* sendbuf, void* recvbuf, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
  return MPIQ_Allreduce(sendbuf, recvbuf, count, type, op, comm, MPI_INFO_NULL);
}
static int explicit_with_key(const void* sendbuf, void* recvbuf, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  return MPIQ_Allreduce(sendbuf, recvbuf, count, type, op, comm, key_info);
}

/* Blocks of few calls, which alternate; the rank that prints is the only one that looks at its clock. */
static void compare_compressed(const char* what, Allreduce own, Allreduce caught, int rank) {
  enum { kCount = 16384, kRounds = 301, kEach = 20 };
  static float x[kCount], y[kCount];
  static double direct[kRounds], rule[kRounds], added[kRounds];
  int b, i;
  for (i = 0; i < kCount; ++i) x[i] = (float)(i % 7);
  for (b = 0; b < kRounds; ++b) {
    double start = now_ns();
    for (i = 0; i < kEach; ++i) own(x, y, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    direct[b] = (now_ns() - start) / kEach;
    start = now_ns();
    for (i = 0; i < kEach; ++i) caught(x, y, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    rule[b] = (now_ns() - start) / kEach;
    added[b] = rule[b] - direct[b];
  }
  qsort(direct, kRounds, sizeof direct[0], by_value);
  qsort(rule, kRounds, sizeof rule[0], by_value);
  qsort(added, kRounds, sizeof added[0], by_value);
  if (rank == 0)
    printf("%-44s %10.0f %10.0f %10.0f\n", what, direct[kRounds / 2], rule[kRounds / 2], added[kRounds / 2]);
}

static void compare_rules(int rank) {
  MPIQ_Comm_set_policy(MPI_COMM_WORLD, ": onebit");
  MPI_Info_create(&key_info);
  MPI_Info_set(key_info, "mpiq_key", "k");
  if (rank == 0)
    printf("%-44s %10s %10s %10s\n", "compressed (ns, medians, onebit)", "MPIQ_", "shim", "added");
  compare_compressed("16384 floats", explicit_call, MPI_Allreduce, rank);
  compare_compressed("16384 floats with feedback", explicit_with_key, with_key, rank);
  MPI_Info_free(&key_info);
}

static const char kUsage[] =
    "usage: mpiq-shim-cost             what the library adds to calls that it does not compress\n"
    "       mpiexec -n 2 mpiq-shim-cost   what a rule adds to calls that are compressed";

int main(int argc, char** argv) {
  int rank, size;
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "--version") == 0)) {
    puts(strcmp(argv[1], "--help") == 0 ? kUsage : "mpiq-shim-cost " MPIQ_VERSION);
    return 0;
  }
  if (argc != 1) {
    fprintf(stderr, "mpiq-shim-cost: takes no arguments\n%s\n", kUsage);
    return 2;
  }
  MPI_Init(&argc, &argv);
  if (!mpiq_launched_by_own_mpi("mpiq-shim-cost")) {
    MPI_Finalize();
    return 2;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1) {
    compare_rules(rank);
    mpiq_finalize();
    return 0;
  }
  printf("%-44s %10s %10s %10s\n", "call (ns, medians of blocks of calls)", "MPI", "shim", "added");
  compare("1 float: below every size", 1, MPI_FLOAT);
  compare("16384 ints: large enough, not a float", 16384, MPI_INT);
  compare("16384 floats: eligible, but one rank", 16384, MPI_FLOAT);
  MPI_Finalize();
  return 0;
}
