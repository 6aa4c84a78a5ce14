/* Four eligible sums from C: calls exact|lossy. See check() for what they are. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kN = 40000 };
static float x[kN], y[kN];
static double xd[kN], yd[kN];

/* Every rank brings i mod 7: the exact sum is a whole number, the mean of a one-bit code is not. */
static int is_exact(double (*value)(int), int size) {
  int i;
  for (i = 0; i < kN; ++i)
    if (fabs(value(i) - (double)size * (i % 7)) > 1e-3) return 0;
  return 1;
}
static double of_y(int i) { return y[i]; }
static double of_yd(int i) { return yd[i]; }

int main(int argc, char** argv) {
  int i, size, wrong = 0;
  const int exact = argc < 2 || strcmp(argv[1], "lossy") != 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (i = 0; i < kN; ++i) x[i] = (float)(xd[i] = i % 7);
  MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  wrong += is_exact(of_y, size) != exact;
  memcpy(y, x, sizeof x);
  MPI_Allreduce(MPI_IN_PLACE, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  wrong += is_exact(of_y, size) != exact;
  MPI_Allreduce(xd, yd, kN, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  wrong += is_exact(of_yd, size) != exact;
  memcpy(yd, xd, sizeof xd);
#if MPI_VERSION >= 4
  MPI_Allreduce_c(MPI_IN_PLACE, yd, kN, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#else
  MPI_Allreduce(MPI_IN_PLACE, yd, kN, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#endif
  wrong += is_exact(of_yd, size) != exact;
  MPI_Finalize();
  if (wrong) printf("%d of 4 sums are not %s\n", wrong, exact ? "exact" : "compressed");
  return wrong;
}
