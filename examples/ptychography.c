/* Ptychography: of overlapping pieces of an image only the magnitudes of their Fourier transforms are known.
 * Each rank has some pieces. In each round the ranks add what these say of the image, which is complex.
 * Build: mpicc ptychography.c -o ptychography -lm
 * Run:   mpiexec -n 2 mpiq-run --policy '64K-: bound(rel=1e-4)' --report - ./ptychography
 * Without mpiq-run the sums are exact: see docs/codes.md. SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kSide = 96, kSize = kSide * kSide, kWide = 24, kPiece = kWide * kWide, kPieces = 10 * 10 };
static double complex image[kSize], found[kSize], last[kSize], sum[kSize], probe[kPiece], wave[kPiece];
static double measured[kPieces][kPiece], weight[kSize], error, norm;
static int at(int p, int i) { return (p / 10 * 8 + i / kWide) * kSide + p % 10 * 8 + i % kWide; }

static void transform(const double complex* root) { /* the wave, by Fourier: its rows, transposed, twice */
  double complex half[2 * kPiece] = {0};
  for (int i = 0; i < 2 * kPiece; ++i)
    for (int j = 0, k = i / kWide % kWide, row = i % kWide * kWide; j < kWide; ++j)
      half[i] += (i < kPiece ? wave : half)[row + j] * root[j * k % kWide];
  memcpy(wave, half + kPiece, sizeof wave);
}

int main(int argc, char** argv) {
  int rank, ranks;
  double complex turn = 0, there[kWide], back[kWide]; /* roots of one */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < kWide; ++i) back[i] = conj(there[i] = cexp(-6.283185307179586 / kWide * I * i));
  for (int i = 0; i < kPiece; ++i) /* a round spot of light that a diffuser has made uneven */
    probe[i] = cexp(-0.01 * (pow(i / kWide - 12, 2) + pow(i % kWide - 12, 2)) + 3 * I * sin(0.37 * i * i));
  for (int i = 0, x = 0, y = 0; i < kSize; ++i, x = i / kSide, y = i % kSide)
    found[i] = last[i] = 1, image[i] = cexp(I * sin(0.13 * x) * cos(0.09 * y) - 0.3 * (x / 12 % 2));
  for (int p = 0; p < kPieces; ++p) {
    for (int i = 0; i < kPiece; ++i) wave[i] = probe[i] * image[at(p, i)];
    for (int i = 0; i < kPiece; ++i) weight[at(p, i)] += pow(cabs(probe[i]), 2);
    transform(there);
    for (int i = 0; i < kPiece; ++i) measured[p][i] = cabs(wave[i]);
  }
  for (int round = 0; round < 60; ++round, memset(sum, 0, sizeof sum)) {
    for (int p = rank; p < kPieces; p += ranks) {
      for (int i = 0; i < kPiece; ++i) wave[i] = probe[i] * found[at(p, i)];
      transform(there);
      for (int i = 0; i < kPiece; ++i) wave[i] *= measured[p][i] / (cabs(wave[i]) + 1e-30) / kPiece;
      transform(back);
      for (int i = 0; i < kPiece; ++i) sum[at(p, i)] += conj(probe[i]) * wave[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, sum, kSize, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < kSize; ++i) found[i] = 1.8 * sum[i] / weight[i] - 0.8 * last[i]; /* with momentum */
    for (int i = 0; i < kSize; ++i) last[i] = sum[i] / weight[i];
  }
  for (int i = 0; i < kSize; ++i) turn += image[i] * conj(last[i]); /* its phase cannot be known */
  for (int i = 0; i < kSize; ++i) norm += weight[i] * pow(cabs(image[i]), 2);
  for (int i = 0; i < kSize; ++i) error += weight[i] * pow(cabs(image[i] - turn / cabs(turn) * last[i]), 2);
  if (rank == 0) printf("error of the image: %.6e\n", sqrt(error / norm));
  MPI_Finalize();
  return !(error < 0.01 * 0.01 * norm);
}
