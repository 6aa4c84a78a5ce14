/* A plain MPI program, which knows nothing of mpi_quant. The preload library compresses its sums.
 * Build: mpicc preload.c -o preload -lm
 * Run:   mpiexec -n 2 mpiq-run --policy '64K-: onebit' --report - ./preload
 * Without mpiq-run the program is exact. With `mpiq-run --advise` you learn what each method would save.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kElements = 100000, kCalls = 100 };
static float sum[kElements], of_rank_0[kElements];
static double results[kElements];

static float value(int i, int rank) { return sinf((float)(i + 1) * (0.1f + (float)rank)); }

int main(int argc, char** argv) {
  int rank, ranks;
  double error = 0, norm = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int call = 0; call < kCalls; ++call) {
    for (int i = 0; i < kElements; ++i) sum[i] = value(i, rank);
    /* Names the vector of the next sum: what compression leaves out is added to the next sum of this name.
     * 0x4D51 is MPIQ_PCONTROL of mpi_quant.h, which this program can do without. The call does nothing
     * without the library. A program that does not make it needs `feedback=address` in the policy. */
    MPI_Pcontrol(0x4D51, "key=field");
    MPI_Allreduce(MPI_IN_PLACE, sum, kElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < kElements; ++i) results[i] += sum[i];
  }

  /* One result by onebit is far from the sum, the mean of many is close. All ranks have the same bits. */
  for (int i = 0; i < kElements; ++i) {
    double exact = 0;
    for (int r = 0; r < ranks; ++r) exact += value(i, r);
    error += pow(results[i] / kCalls - exact, 2);
    norm += exact * exact;
  }
  error = sqrt(error / norm);
  memcpy(of_rank_0, sum, sizeof sum);
  MPI_Bcast(of_rank_0, kElements, MPI_FLOAT, 0, MPI_COMM_WORLD);
  const int same = memcmp(of_rank_0, sum, sizeof sum) == 0;
  if (rank == 0) printf("error of the mean of %d results: %.2g\n", kCalls, error);
  if (!same) printf("rank %d has another result than rank 0\n", rank);
  MPI_Finalize();
  return !(same && error < 0.03);
}
