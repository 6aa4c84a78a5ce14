/* mpiq-bare: a loop of barrier, clock, MPI_Allreduce, clock, and nothing else: what mpiq-bench is compared
 * with to see whether its own work is in its times. Prints the median over repetitions
 * of the time of the slowest rank, in seconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/program.h"

enum { kWarmup = 20 };

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* sample, int n) {
  qsort(sample, (size_t)n, sizeof sample[0], by_value);
  return n % 2 == 1 ? sample[n / 2] : 0.5 * (sample[n / 2 - 1] + sample[n / 2]);
}

static void* aligned(long bytes) {
  void* p = NULL;
  return posix_memalign(&p, 64, (size_t)bytes) == 0 ? p : NULL;
}

static const char kUsage[] =
    "usage: mpiq-bare BYTES REPETITIONS   (4 to 2^30; 1 to 10^6), started with mpiexec";

int main(int argc, char** argv) {
  const long bytes = argc == 3 ? atol(argv[1]) : 0, reps = argc == 3 ? atol(argv[2]) : 0;
  const int count = (int)(bytes / (long)sizeof(float));
  float *in, *out;
  double *own, *slowest;
  int i, rank;
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "--version") == 0)) {
    puts(strcmp(argv[1], "--help") == 0 ? kUsage : "mpiq-bare " MPIQ_VERSION);
    return 0;
  }
  if (count < 1 || bytes > 1L << 30 || reps < 1 || reps > 1000000) {
    fprintf(stderr, "%s\n", kUsage);
    return 2;
  }
  MPI_Init(&argc, &argv);
  if (!mpiq_launched_by_own_mpi("mpiq-bare")) {
    MPI_Finalize();
    return 2;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  in = aligned(bytes);
  out = aligned(bytes);
  own = calloc((size_t)reps, sizeof(double));
  slowest = calloc((size_t)reps, sizeof(double));
  if (in == NULL || out == NULL || own == NULL || slowest == NULL) {
    fprintf(stderr, "mpiq-bare: not enough memory\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
  for (i = 0; i < count; ++i) in[i] = (float)(rank + 1) / (float)(i + 1);
  for (i = -kWarmup; i < reps; ++i) {
    double start;
    MPI_Barrier(MPI_COMM_WORLD);
    start = now_s();
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (i >= 0) own[i] = now_s() - start;
  }
  MPI_Reduce(own, slowest, (int)reps, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%.9g\n", median(slowest, (int)reps));
  free(in);
  free(out);
  free(own);
  free(slowest);
  mpiq_finalize();
  return 0;
}
