/* The collectives in which ranks have different parts, many times, by roots in turn, under a policy with
 * auto(error=0.5) for them: chosen sums lossy. */
#include "tests/preload/check.h"

#include <math.h>

enum { kCommand = 0x4D51 };
static float wanted[kN];

/* n elements, compared with the exact ones. */
static void expect_near(const float* got, const float* exact, int n, const char* what) {
  double error = 0, energy = 0;
  int i;
  for (i = 0; i < n; ++i) {
    error += pow(got[i] - exact[i], 2);
    energy += pow(exact[i], 2);
  }
  expect(error <= 0.25 * energy, what);
}

int main(int argc, char** argv) {
  int part, k, i;
  MPI_Init(&argc, &argv);
  begin(argc, argv);
  part = kN / size;
  for (k = 0; k < 80; ++k) {
    const int root = k % size;
    for (i = 0; i < kN; ++i) x[i] *= k % 2 == 0 ? 2.0F : 0.5F;
    if (rank == 0 && k == 30) MPI_Pcontrol(kCommand, "exact");
    if (rank == 0 && k == 40) MPI_Pcontrol(kCommand, "end");
    beneath()(x, wanted, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(x, ours, kN, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
    if (rank == root) expect_near(ours, wanted, kN, "a reduction is over the limit");
    MPI_Reduce_scatter_block(x, ours, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    expect_near(ours, wanted + rank * part, part, "a reduce-scatter is over the limit");
    memset(ours, 0, sizeof ours);
    MPI_Allgather(x, part, MPI_FLOAT, ours, part, MPI_FLOAT, MPI_COMM_WORLD);
    expect(same_on_all_ranks(ours, MPI_COMM_WORLD), "the ranks have gathered different results");
    expect_near(ours + rank * part, x, part, "what is gathered is over the limit");
    memcpy(ours, x, sizeof x);
    MPI_Bcast(ours, kN, MPI_FLOAT, root, MPI_COMM_WORLD);
    expect(same_on_all_ranks(ours, MPI_COMM_WORLD), "the ranks have got different vectors");
    if (rank == root) expect_near(ours, x, kN, "what is broadcast is over the limit");
  }
  return end();
}
