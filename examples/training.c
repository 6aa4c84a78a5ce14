/* Training with compressed gradients. Each rank has its own samples, and the ranks sum their gradients. The
 * info key mpiq_key turns error feedback on: what one call leaves out is added to the next call.
 * Build: mpicc training.c -o training $(pkg-config --cflags --libs mpi_quant)
 * Run:   mpiexec -n 2 ./training
 * SPDX-License-Identifier: Apache-2.0 */
#include <mpi_quant.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWeights = 256, kSamples = 512, kSteps = 500 };
static float samples[kSamples][kWeights], labels[kSamples];

static float uniform(void) { return 2.0f * (float)rand() / (float)RAND_MAX - 1.0f; }

/* Returns the mean squared error over the samples of this rank, and writes its gradient. */
static double loss(const float* weights, float* gradient) {
  double sum = 0;
  memset(gradient, 0, kWeights * sizeof *gradient);
  for (int i = 0; i < kSamples; ++i) {
    float error = -labels[i];
    for (int j = 0; j < kWeights; ++j) error += samples[i][j] * weights[j];
    for (int j = 0; j < kWeights; ++j) gradient[j] += error * samples[i][j] / kSamples;
    sum += error * error / kSamples;
  }
  return sum;
}

int main(int argc, char** argv) {
  int rank, ranks;
  float teacher[kWeights], weights[kWeights] = {0}, gradient[kWeights];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int j = 0; j < kWeights; ++j) teacher[j] = uniform(); /* the same on all ranks */
  srand(2 + (unsigned)rank);
  for (int i = 0; i < kSamples; ++i)
    for (int j = 0; j < kWeights; ++j) labels[i] += teacher[j] * (samples[i][j] = uniform());

  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "onebit"); /* one bit for each element, and a few means */
  MPI_Info_set(info, "mpiq_key", "weights");   /* the name of this vector, for its residual */
  const double first = loss(weights, gradient);
  for (int step = 0; step < kSteps; ++step) {
    MPIQ_Allreduce(MPI_IN_PLACE, gradient, kWeights, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info);
    for (int j = 0; j < kWeights; ++j) weights[j] -= 0.1f * gradient[j] / (float)ranks;
    loss(weights, gradient);
  }
  const double last = loss(weights, gradient);
  MPI_Info_free(&info);

  memcpy(teacher, weights, sizeof weights);
  MPI_Bcast(teacher, kWeights, MPI_FLOAT, 0, MPI_COMM_WORLD);
  const int same = memcmp(teacher, weights, sizeof weights) == 0; /* all ranks have the same bits */
  printf("rank %d: loss %.3g, then %.3g, weights %s rank 0\n", rank, first, last, same ? "as on" : "unlike");
  MPI_Finalize();
  return !(same && last < 1e-3 * first);
}
