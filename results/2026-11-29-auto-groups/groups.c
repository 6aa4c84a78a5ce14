/* How long calls of several vectors take by MPI, by two methods and by `auto`, in turns. A row for each.
 *   cc -O2 groups.c $(pkg-config --cflags --libs mpi_quant-mpich) -o groups
 *   mpiexec -n 2 ./groups 20 4096    20 vectors of 4096 floats */
#define MPIQ_EXPERIMENTAL
#include <mpi.h>
#include <mpi_quant.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMostVectors = 256, kCalls = 400, kFirst = 200, kLast = 100, kMethods = 6 };
static const char* const kNames[kMethods] = {"auto(error=0.02)",  "mpi", "raw", "bf16", "int8",
                                             "auto(error=0.0001)"};
static double seconds[kMethods][kCalls];

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
static double mean_of_first(const double* v) {
  double sum = 0;
  for (int i = 0; i < kFirst; ++i) sum += v[i];
  return sum / kFirst;
}
static double median_of_last(const double* v) {
  double last[kLast];
  memcpy(last, v + kCalls - kLast, sizeof last);
  qsort(last, kLast, sizeof *last, by_size);
  return last[kLast / 2];
}
static float nearly_normal(void) {
  float sum = 0;
  for (int i = 0; i < 6; ++i) sum += (float)rand() / (float)RAND_MAX - .5f;
  return sum;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3 || atoi(argv[1]) > kMostVectors) MPI_Abort(MPI_COMM_WORLD, 2);
  const int n = atoi(argv[1]), count = atoi(argv[2]);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const void* in[kMostVectors];
  void* out[kMostVectors];
  MPI_Count counts[kMostVectors];
  for (int i = 0; i < n; ++i) {
    float* const x = malloc((size_t)count * sizeof *x);
    for (int k = 0; k < count; ++k) x[k] = nearly_normal();
    in[i] = x;
    out[i] = malloc((size_t)count * sizeof *x);
    counts[i] = count;
  }
  MPI_Comm comms[kMethods];
  MPI_Info infos[kMethods];
  for (int m = 0; m < kMethods; ++m) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[m]);
    MPI_Info_create(&infos[m]);
    MPI_Info_set(infos[m], "mpiq_method", kNames[m]);
  }
  for (int call = 0; call < kCalls; ++call)
    for (int m = 0; m < kMethods; ++m) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      MPIQ_Allreduce_group(n, in, out, counts, NULL, MPI_FLOAT, MPI_SUM, comms[m], infos[m]);
      seconds[m][call] = MPI_Wtime() - begin;
    }
  MPI_Allreduce(MPI_IN_PLACE, seconds, kMethods * kCalls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const double first = mean_of_first(seconds[1]), last = median_of_last(seconds[1]);
  for (int m = 0; m < kMethods && rank == 0; ++m) {
    const double mine = mean_of_first(seconds[m]), end = median_of_last(seconds[m]);
    printf("%d,%d,%s,%.1f,%.3f,%.1f,%.3f\n", n, count, kNames[m], 1e6 * mine, mine / first, 1e6 * end,
           end / last);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(200000); /* MPICH before 4.2 over TCP: see scripts/lab --help */
  MPI_Finalize();
  return 0;
}
