/* A persistent call: prepared once, started many times. With a key each call adds what the call before it
 * left out. At the end MPIQ_Residual_flush delivers the rest, so that nothing is lost.
 * Build: mpicc persistent.c -o persistent -lm $(pkg-config --cflags --libs mpi_quant)
 * Run:   mpiexec -n 2 ./persistent
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <mpi_quant.h>
#include <stdio.h>

enum { kElements = 100000, kCalls = 50 };
static float start[kElements], mine[kElements], sum[kElements]; /* of this rank; of all */
static double starts[kElements], results[kElements], expected[kElements];

static float value(int i, int rank) { return sinf((float)(i + 1) * (0.1f + (float)rank)); }

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Info info;
  MPIQ_Request request;
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  double error = 0, norm = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "onebit");
  MPI_Info_set(info, "mpiq_key", "field");
  MPIQ_Allreduce_init(mine, sum, kElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info, &request);
  MPI_Info_free(&info);

  for (int i = 0; i < kElements; ++i) {
    start[i] = value(i, rank);
    for (int r = 0; r < ranks; ++r) starts[i] += value(i, r);
  }
  for (int call = 0; call < kCalls; ++call) {
    const float more = 0.01f * (float)call;
    for (int i = 0; i < kElements; ++i) {
      mine[i] = start[i] + more;
      expected[i] += starts[i] + ranks * more;
    }
    MPIQ_Start(&request);
    /* Other work may be done here, if it leaves `mine` and `sum` alone. */
    MPIQ_Wait(&request);
    for (int i = 0; i < kElements; ++i) results[i] += sum[i];
  }
  MPIQ_Request_free(&request);

  MPIQ_Residual_flush(sum, kElements, MPI_FLOAT, MPI_COMM_WORLD, "field");
  for (int i = 0; i < kElements; ++i) {
    error += pow(results[i] + sum[i] - expected[i], 2);
    norm += pow(expected[i], 2);
  }
  error = sqrt(error / norm);
  MPIQ_Comm_get_stats(MPI_COMM_WORLD, &stats);
  const double mebibyte = 1 << 20, vectors = (double)stats.raw_bytes, sent = (double)stats.wire_bytes_sent;
  if (rank == 0)
    printf("sent %.2f MiB for vectors of %.1f MiB, error %.2g\n", sent / mebibyte, vectors / mebibyte, error);
  MPI_Finalize();
  return !(error < 1e-4 && 10 * sent <= vectors);
}
