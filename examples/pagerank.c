/* PageRank of a graph whose edges are spread over the ranks. MPIQ_Sparse_allreduce_init sends the indices
 * once, and each iteration sends values only. MPIQ_Sparse_allreduce_union gives every rank the whole result.
 * Build: mpicc pagerank.c -o pagerank -lm $(pkg-config --cflags --libs mpi_quant)
 * Run:   mpiexec -n 2 ./pagerank
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <mpi_quant.h>
#include <stdio.h>

enum { kVertices = 3000, kDegree = 3, kIterations = 120 };
static const double kDamping = 0.85;

static int64_t target(int64_t vertex, int edge) { return (vertex * (edge + 2) + 7 * edge + 1) % kVertices; }

int main(int argc, char** argv) {
  static int64_t own[kVertices], targets[kDegree * kVertices];
  static double score[kVertices], parts[kDegree * kVertices], sums[kVertices], all[kVertices],
      next[kVertices];
  int rank, ranks, n = 0;
  MPIQ_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int64_t v = rank; v < kVertices;
       v += ranks) { /* each rank owns some vertices and the edges from them */
    for (int e = 0; e < kDegree; ++e) targets[kDegree * n + e] = target(v, e);
    score[n] = 1.0 / kVertices;
    own[n++] = v;
  }

  /* Out: a part of the score along each edge. A target may be in the list several times.
   * In: the sums for the vertices of this rank. */
  MPIQ_Sparse_allreduce_init(kDegree * n, targets, parts, n, own, sums, 1, MPI_DOUBLE, MPI_SUM,
                             MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (int i = 0; i < kDegree * n; ++i) parts[i] = score[i / kDegree] / kDegree;
    MPIQ_Start(&request); /* sends values only */
    MPIQ_Wait(&request);
    for (int i = 0; i < n; ++i) score[i] = (1 - kDamping) / kVertices + kDamping * sums[i];
  }
  MPIQ_Request_free(&request);

  /* NULL for the indices of the result: the whole vector, with a value for every vertex. */
  MPIQ_Sparse_allreduce_union(n, own, score, kVertices, kVertices, NULL, all, NULL, 1, MPI_DOUBLE, MPI_SUM,
                              MPI_COMM_WORLD, MPI_INFO_NULL);
  double total = 0, change = 0; /* one more iteration on one rank must change nothing */
  for (int v = 0; v < kVertices; ++v) next[v] = (1 - kDamping) / kVertices;
  for (int v = 0; v < kVertices; ++v)
    for (int e = 0; e < kDegree; ++e) next[target(v, e)] += kDamping * all[v] / kDegree;
  for (int v = 0; v < kVertices; ++v) total += all[v], change += fabs(next[v] - all[v]);
  if (rank == 0) printf("sum of the scores: %.12f, change by one more iteration: %.2g\n", total, change);
  MPI_Finalize();
  return !(fabs(total - 1) < 1e-9 && change < 1e-6);
}
