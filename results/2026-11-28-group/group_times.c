/* Times of MPIQ_Allreduce_group beside a call for each vector. Prints CSV. On 2 ranks, with nothing else
 * running:
 *
 *   mpicc -O2 group_times.c -o group_times $(pkg-config --cflags --libs mpi_quant)
 *   mpiexec -n 2 ./group_times > times.csv
 */
#define MPIQ_EXPERIMENTAL
#include <mpi.h>
#include <mpi_quant.h>
#include <stdio.h>
#include <stdlib.h>

enum { kVectors = 20, kRepetitions = 201 }; /* the first repetition does not count */

struct Vectors {
  MPI_Count counts[kVectors];
  const void* send[kVectors];
  void* receive[kVectors];
  char names[kVectors][8];
  const char* keys[kVectors];
};

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values, int n) {
  qsort(values, (size_t)n, sizeof *values, by_size);
  return values[n / 2];
}

static void fill(struct Vectors* v, int count) {
  for (int i = 0; i < kVectors; ++i) {
    float* const x = malloc((size_t)count * sizeof *x);
    for (int k = 0; k < count; ++k) x[k] = (float)(rand() % 2000 - 1000) * 1e-3f;
    v->counts[i] = count;
    v->send[i] = x;
    v->receive[i] = malloc((size_t)count * sizeof *x);
    snprintf(v->names[i], sizeof v->names[i], "v%d", i);
    v->keys[i] = v->names[i];
  }
}

static void free_all(struct Vectors* v) {
  for (int i = 0; i < kVectors; ++i) {
    free((void*)v->send[i]);
    free(v->receive[i]);
  }
}

static void check(int error) {
  if (error != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, error);
}

static double group_s(const struct Vectors* v, int has_keys, MPI_Info info, MPI_Comm comm) {
  check(MPI_Barrier(comm));
  const double start = MPI_Wtime();
  check(MPIQ_Allreduce_group(kVectors, v->send, (void* const*)v->receive, v->counts,
                             has_keys ? v->keys : NULL, MPI_FLOAT, MPI_SUM, comm, info));
  return MPI_Wtime() - start;
}

static double single_s(const struct Vectors* v, MPI_Info* infos, MPI_Comm comm) {
  check(MPI_Barrier(comm));
  const double start = MPI_Wtime();
  for (int i = 0; i < kVectors; ++i)
    check(MPIQ_Allreduce(v->send[i], v->receive[i], v->counts[i], MPI_FLOAT, MPI_SUM, comm, infos[i]));
  return MPI_Wtime() - start;
}

static void measure(int count, const char* method, int has_keys) {
  static double group[kRepetitions], single[kRepetitions], ratio[kRepetitions];
  struct Vectors v;
  MPI_Info info, infos[kVectors];
  MPI_Comm of_group, of_single;
  int rank;
  fill(&v, count);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &of_group);
  MPI_Comm_dup(MPI_COMM_WORLD, &of_single);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", method);
  for (int i = 0; i < kVectors; ++i) {
    MPI_Info_dup(info, &infos[i]);
    if (has_keys) MPI_Info_set(infos[i], "mpiq_key", v.keys[i]);
  }
  for (int r = 0; r < kRepetitions; ++r) { /* in turns, so that drift of the machine meets both */
    group[r] = group_s(&v, has_keys, info, of_group);
    single[r] = single_s(&v, infos, of_single);
  }
  MPI_Allreduce(MPI_IN_PLACE, group, kRepetitions, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, single, kRepetitions, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  for (int r = 0; r < kRepetitions; ++r) ratio[r] = single[r] / group[r];
  const int n = kRepetitions - 1;
  const double group_us = 1e6 * median(group + 1, n), single_us = 1e6 * median(single + 1, n),
               times = median(ratio + 1, n);
  if (rank == 0)
    printf("%d,%s,%s,%.1f,%.1f,%.2f\n", count * (int)sizeof(float), method, has_keys ? "yes" : "no", group_us,
           single_us, times);
  free_all(&v);
  for (int i = 0; i < kVectors; ++i) MPI_Info_free(&infos[i]);
  MPI_Info_free(&info);
  MPI_Comm_free(&of_group);
  MPI_Comm_free(&of_single);
}

int main(int argc, char** argv) {
  static const char* const methods[] = {"onebit", "int8", "bf16"};
  static const int counts[] = {256, 4096, 16384, 65536};
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) puts("bytes_of_a_vector,method,keys,group_us,single_us,ratio");
  for (int c = 0; c < 4; ++c)
    for (int m = 0; m < 3; ++m)
      for (int has_keys = 0; has_keys < 2; ++has_keys) measure(counts[c], methods[m], has_keys);
  MPI_Finalize();
  return 0;
}
