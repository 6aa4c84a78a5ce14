/* Gradients of a layer as matrices of low rank: two sums of narrow matrices in place of one of the whole
 * matrix. With a key each call adds what the call before it left out, and begins with the directions that it
 * found.
 * Build: mpicc lowrank.c -o lowrank -lm $(pkg-config --cflags --libs mpi_quant)
 * Run:   mpiexec -n 2 ./lowrank
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <mpi_quant.h>
#include <stdio.h>

enum { kInputs = 400, kOutputs = 300, kElements = kInputs * kOutputs, kCalls = 10 };
static float gradient[kElements], sum[kElements]; /* gradient[output][input] */
static double results[kElements], expected[kElements];

/* Three samples a call and rank, and a little noise. */
static float value(int i, int call, int rank) {
  const int input = i % kInputs, output = i / kInputs;
  float v = 0.01f * sinf((float)(i * 7 + call + rank));
  for (int sample = 0; sample < 3; ++sample)
    v += sinf((float)((sample + 1) * (input + 3))) * cosf((float)((sample + rank + 1) * output + call));
  return v;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Info info;
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  double error = 0, norm = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "lowrank(rank=4)");
  MPI_Info_set(info, "mpiq_key", "layer 1");
  MPI_Info_set(info, "mpiq_matrix",
               "400x300"); /* kInputs x kOutputs, because the matrix is stored row by row */

  for (int call = 0; call < kCalls; ++call) {
    for (int i = 0; i < kElements; ++i) {
      gradient[i] = value(i, call, rank);
      for (int r = 0; r < ranks; ++r) expected[i] += value(i, call, r);
    }
    MPIQ_Allreduce(gradient, sum, kElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info);
    for (int i = 0; i < kElements; ++i) results[i] += sum[i];
  }
  MPI_Info_free(&info);

  for (int i = 0; i < kElements; ++i) {
    error += pow(results[i] - expected[i], 2);
    norm += pow(expected[i], 2);
  }
  error = sqrt(error / norm);
  MPIQ_Comm_get_stats(MPI_COMM_WORLD, &stats);
  const double mebibyte = 1 << 20, vectors = (double)kCalls * sizeof gradient,
               sent = (double)stats.wire_bytes_sent;
  if (rank == 0)
    printf("sent %.2f MiB for vectors of %.1f MiB, error %.2g\n", sent / mebibyte, vectors / mebibyte, error);
  MPI_Finalize();
  return !(error < 0.2 && 10 * sent <= vectors);
}
