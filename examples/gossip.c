/* Decentralised least squares: the ranks know different targets, and all look for the point that is nearest
 * to them together, which is their mean. No rank ever adds all vectors: each takes a step towards its own
 * target and mixes with its neighbours on a ring, by messages of a quarter of the bytes.
 * Build: mpicc gossip.c -o gossip -lm $(pkg-config --cflags --libs mpi_quant)
 * Run:   mpiexec -n 2 ./gossip
 * SPDX-License-Identifier: Apache-2.0 */
#define MPIQ_EXPERIMENTAL /* declares MPIQ_Neighbor_mix */
#include <math.h>
#include <mpi_quant.h>
#include <stdio.h>

enum { kElements = 10000, kRounds = 400 };
static float x[kElements];

static float target(int i, int rank) { return sinf((float)(i + 1) * (0.1f + (float)rank)); }

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Comm ring;
  MPI_Info info;
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  double weight = 1, error = 0, norm = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int from = (rank + ranks - 1) % ranks, to = (rank + 1) % ranks;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &ring);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "int8");
  MPI_Info_set(info, "mpiq_key", "x");

  for (int round = 0; round < kRounds; ++round) {
    /* The gradient at x / weight. Steps become shorter, so that all ranks come to rest at the same point. */
    const double rate = 0.2 / (1 + 0.05 * round);
    for (int i = 0; i < kElements; ++i) x[i] -= (float)(rate * (x[i] / weight - target(i, rank)));
    MPIQ_Neighbor_mix(x, &weight, kElements, MPI_FLOAT, 0.5, ring, info);
  }

  for (int i = 0; i < kElements; ++i) {
    double mean = 0;
    for (int r = 0; r < ranks; ++r) mean += target(i, r);
    mean /= ranks;
    error += pow(x[i] / weight - mean, 2);
    norm += pow(mean, 2);
  }
  error = sqrt(error / norm);
  MPIQ_Comm_get_stats(ring, &stats);
  const double sent = (double)stats.wire_bytes_sent, vectors = (double)kRounds * sizeof x;
  if (rank == 0)
    printf("sent %.2f MiB for vectors of %.1f MiB, error %.2g\n", sent / (1 << 20), vectors / (1 << 20),
           error);
  MPI_Info_free(&info);
  MPI_Comm_free(&ring);
  MPI_Finalize();
  return !(error < 0.1 && (ranks == 1 || 3 * sent <= vectors));
}
