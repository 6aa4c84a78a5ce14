/* Sums that run while the program computes. Backpropagation yields the gradients layer by layer, and
 * MPIQ_Iallreduce starts the sum of each layer as soon as its gradient is there.
 * Build: mpicc overlap.c -o overlap -lm $(pkg-config --cflags --libs mpi_quant)
 * Run:   mpiexec -n 2 ./overlap
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <mpi_quant.h>
#include <stdio.h>

enum { kLayers = 4, kElements = 1 << 18, kPieces = 8 };
static float gradient[kLayers][kElements];
static MPIQ_Request request[kLayers]; /* all MPIQ_REQUEST_NULL, which is 0 */

static float value(int layer, int i, int rank) { return 0.001f * (float)((i * 37 + layer) % 1000 + rank); }

/* A long computation. The library has no thread of its own, so a call now and then keeps its sums going. */
static void backward(int layer, int rank) {
  for (int piece = 0; piece < kPieces; ++piece) {
    const int first = piece * (kElements / kPieces), end = first + kElements / kPieces;
    for (int i = first; i < end; ++i) gradient[layer][i] = value(layer, i, rank);
    int done;
    if (layer + 1 < kLayers) MPIQ_Test(&request[layer + 1], &done); /* advances all sums in flight */
  }
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Info info;
  double error = 0, norm = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "bf16"); /* two bytes for each element; no feedback needed */

  for (int layer = kLayers - 1; layer >= 0; --layer) {
    backward(layer, rank);
    MPIQ_Iallreduce(MPI_IN_PLACE, gradient[layer], kElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info,
                    &request[layer]);
  }
  MPI_Info_free(&info);
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    MPIQ_Wait(&request[layer]); /* from here on gradient[layer] is the sum, and the weights may be updated */
    for (int i = 0; i < kElements; ++i) {
      double sum = 0;
      for (int r = 0; r < ranks; ++r) sum += value(layer, i, r);
      error += pow(gradient[layer][i] - sum, 2);
      norm += sum * sum;
    }
  }
  error = sqrt(error / norm);
  if (rank == 0) printf("relative error of %d sums: %.2g\n", kLayers, error);
  MPI_Finalize();
  return !(error < 0.01);
}
