/* How long a union allreduce of sparse vectors takes by `auto` and by each algorithm, in turns. A row for
 * each density: the median of calls after the first 20, in which `auto` learns, and the mean of those 20.
 *   cc -O2 unions.c $(pkg-config --cflags --libs mpi_quant-mpich) -o unions
 *   mpiexec -n 2 ./unions */
#include <mpi.h>
#include <mpi_quant.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kSize = 4 << 20, kLists = 4, kFirst = 20, kMost = 400, kMethods = 5 };
static const char* const kNames[kMethods] = {"auto", "allgather", "split", "recursive_doubling", "dense"};
static const double kDensities[] = {0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3};
static const double kLeastDense =
    0.03; /* below, reducing the whole vector takes more than ten times as long */
static double seconds[kMethods][kFirst + kMost];

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

struct list {
  int64_t n, *indices;
  float* values;
};
static struct list random_list(double density) {
  struct list made = {0, malloc(sizeof(int64_t) * kSize), malloc(sizeof(float) * kSize)};
  for (int64_t i = 0; i < kSize; ++i)
    if ((double)random() / 2147483648.0 < density) {
      made.indices[made.n] = i;
      made.values[made.n++] = (float)(random() % 1000) / 100 + 1;
    }
  return made;
}

static double call(const struct list* list, int64_t* indices, float* values, MPI_Info info) {
  MPI_Count n = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  double own = MPI_Wtime(), slowest = 0;
  MPIQ_Sparse_allreduce_union(list->n, list->indices, list->values, kSize, kSize, indices, values, &n, 1,
                              MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info);
  own = MPI_Wtime() - own;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static void print_row(double density, int methods, int calls) {
  double first = 0;
  printf("%g", density);
  for (int i = 0; i < kFirst; ++i) first += seconds[0][i] / kFirst;
  for (int m = 0; m < methods; ++m) {
    qsort(seconds[m] + kFirst, (size_t)calls, sizeof(double), by_size);
    printf(",%.4g", seconds[m][kFirst + calls / 2]);
  }
  printf("%s,%.4g\n", methods < kMethods ? "," : "", first);
  fflush(stdout);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  srandom((unsigned)rank + 7);
  MPI_Info info[kMethods];
  for (int m = 0; m < kMethods; ++m) {
    MPI_Info_create(&info[m]);
    MPI_Info_set(info[m], "mpiq_algorithm", kNames[m]);
  }
  int64_t* const indices = malloc(sizeof(int64_t) * kSize);
  float* const values = malloc(sizeof(float) * kSize);
  if (rank == 0) printf("density,auto_s,allgather_s,split_s,recursive_doubling_s,dense_s,auto_first_s\n");
  for (size_t d = 0; d < sizeof kDensities / sizeof *kDensities; ++d) {
    const int calls = kDensities[d] < 0.005 ? kMost : kDensities[d] < 0.05 ? 100 : 20;
    const int methods = kDensities[d] < kLeastDense ? kMethods - 1 : kMethods;
    struct list lists[kLists];
    for (int i = 0; i < kLists; ++i) lists[i] = random_list(kDensities[d]);
    for (int i = 0; i < kFirst + calls; ++i)
      for (int k = 0; k < methods; ++k) {
        const int m = i % 2
                          ? methods - 1 - k
                          : k; /* there and back, because a call finds in the caches what the last one left */
        seconds[m][i] = call(&lists[(i + m) % kLists], indices, values, info[m]);
      }
    if (rank == 0) print_row(kDensities[d], methods, calls);
    for (int i = 0; i < kLists; ++i) {
      free(lists[i].indices);
      free(lists[i].values);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(200000); /* MPICH 4.0 may wait for ever in MPI_Finalize over TCP */
  return MPI_Finalize();
}
