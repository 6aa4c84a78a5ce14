/* Gradients of an embedding table. A step touches few rows of the table. Each rank sends the rows that its
 * batch touched, and asks for the rows that its next batch needs.
 * Build: mpicc embedding.c -o embedding $(pkg-config --cflags --libs mpi_quant)
 * Run:   mpiexec -n 2 ./embedding
 * SPDX-License-Identifier: Apache-2.0 */
#include <mpi_quant.h>
#include <stdio.h>

enum { kTable = 100000, kRows = 500, kWidth = 16, kSteps = 5 };

/* The rows of a rank's batch in a step. They may come in any order, and more than once. */
static int64_t row(int i, int step, int rank) { return (int64_t)i * (i + step + rank) % kTable; }

/* What the batch adds to each element of such a row: a small integer, so that sums are exact. */
static float part(int step, int rank) { return (float)(step + rank + 1); }

int main(int argc, char** argv) {
  static int64_t touched[kRows], needed[kRows];
  static float gradients[kRows][kWidth], sums[kRows][kWidth];
  int rank, ranks, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kRows; ++i) {
      touched[i] = row(i, step, rank);
      needed[i] = row(i, step + 1, rank);
      for (int j = 0; j < kWidth; ++j) gradients[i][j] = part(step, rank);
    }
    /* kWidth values for each index. A row that no rank has touched comes back as zeros. */
    MPIQ_Sparse_allreduce(kRows, touched, gradients, kRows, needed, sums, kWidth, MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD, MPI_INFO_NULL);
    for (int i = 0; i < kRows; ++i) {
      float expected = 0;
      for (int r = 0; r < ranks; ++r)
        for (int k = 0; k < kRows; ++k)
          if (row(k, step, r) == needed[i]) expected += part(step, r);
      for (int j = 0; j < kWidth; ++j) wrong += sums[i][j] != expected;
    }
  }
  if (rank == 0)
    printf("%d wrong values in %d steps with %d of %d rows each\n", wrong, kSteps, kRows, kTable);
  MPI_Finalize();
  return wrong != 0;
}
