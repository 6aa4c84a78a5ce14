/* Data-parallel training as programs do it: a perceptron with one hidden layer learns the sign of a linear
 * function; every step ends in one MPI_Allreduce of the gradient, 129 KiB of floats. Prints the loss over
 * everybody's samples and whether the ranks still have the same weights, bit for bit. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kInputs = 256, kHidden = 128, kBatch = 32, kBatches = 4 };
enum { kWeights = kInputs * kHidden + kHidden };
static float w[kWeights], g[kWeights];
static float samples[kBatch * kBatches][kInputs], labels[kBatch * kBatches];

static unsigned seed = 1;
static float uniform(void) { /* -1 to 1, the same on every machine */
  seed = seed * 1664525u + 1013904223u;
  return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static void make_data(int rank) {
  float teacher[kInputs];
  int i, j;
  for (j = 0; j < kInputs; ++j) teacher[j] = uniform();
  for (i = 0; i < kWeights; ++i) w[i] = 0.1f * uniform();
  seed += 12345u * (unsigned)(rank + 1); /* from here on each rank has its own */
  for (i = 0; i < kBatch * kBatches; ++i) {
    float sum = 0;
    for (j = 0; j < kInputs; ++j) sum += teacher[j] * (samples[i][j] = uniform());
    labels[i] = sum > 0 ? 1.0f : -1.0f;
  }
}

/* The output for a sample; hidden gets what is between. */
static float forward(const float* sample, float* hidden) {
  float out = 0;
  int h, j;
  for (h = 0; h < kHidden; ++h) {
    float sum = 0;
    for (j = 0; j < kInputs; ++j) sum += w[h * kInputs + j] * sample[j];
    hidden[h] = tanhf(sum);
    out += hidden[h] * w[kInputs * kHidden + h];
  }
  return out;
}

static void add_gradient(int i) {
  float hidden[kHidden];
  const float error = forward(samples[i], hidden) - labels[i];
  int h, j;
  for (h = 0; h < kHidden; ++h) {
    const float back = error * w[kInputs * kHidden + h] * (1 - hidden[h] * hidden[h]);
    for (j = 0; j < kInputs; ++j) g[h * kInputs + j] += back * samples[i][j];
    g[kInputs * kHidden + h] += error * hidden[h];
  }
}

static double mean_loss(int size) {
  float hidden[kHidden];
  double mine = 0, all = 0;
  int i;
  for (i = 0; i < kBatch * kBatches; ++i) mine += pow((double)forward(samples[i], hidden) - labels[i], 2);
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all / (kBatch * kBatches) / size;
}

static int ranks_agree(void) {
  int same, all = 0;
  memcpy(g, w, sizeof w);
  MPI_Bcast(g, kWeights, MPI_FLOAT, 0, MPI_COMM_WORLD);
  same = memcmp(g, w, sizeof w) == 0;
  MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 80;
  int rank, size, step, i, agree;
  double first, last;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  make_data(rank);
  first = mean_loss(size);
  for (step = 0; step < steps; ++step) {
    const float rate = 0.02f / (float)(kBatch * size);
    memset(g, 0, sizeof g);
    for (i = 0; i < kBatch; ++i) add_gradient(step % kBatches * kBatch + i);
    MPI_Allreduce(MPI_IN_PLACE, g, kWeights, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < kWeights; ++i) w[i] -= rate * g[i];
  }
  last = mean_loss(size);
  agree = ranks_agree();
  if (rank == 0) printf("loss %.17g, then %.17g\nthe ranks %s\n", first, last, agree ? "agree" : "differ");
  MPI_Finalize();
  return !agree;
}
