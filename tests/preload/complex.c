/* Complex numbers, and rows of floats, of a program that is not recompiled: complex all exact|lossy. */
#include "tests/preload/check.h"

enum { kPairs = kN / 2 };
static float got[2 * kN];

/* Broadcasts and gathers: of two ranks, so that both vectors have the same length. */
static void moved(MPI_Datatype type, int count, const char* what) {
  char words[100];
  memcpy(got, x, sizeof x);
  memcpy(ours, x, sizeof x);
  MPI_Bcast(got, count, type, 0, MPI_COMM_WORLD);
  PMPI_Bcast(ours, kN * (int)sizeof(float), MPI_BYTE, 0, MPI_COMM_WORLD);
  snprintf(words, sizeof words, "broadcast of %s: %s", what, lossy ? "not compressed" : "changed");
  expect((memcmp(got, ours, sizeof x) != 0) == lossy, words);
  expect(same_on_all_ranks(got, MPI_COMM_WORLD), "broadcast: ranks differ");
  MPI_Allgather(x, count, type, got, count, type, MPI_COMM_WORLD);
  snprintf(words, sizeof words, "gather of %s: %s", what, lossy ? "not compressed" : "changed");
  expect((memcmp(got + (size_t)rank * kN, x, sizeof x) != 0) == lossy, words);
}

static void summed(MPI_Datatype type, const char* what) {
  int r;
  MPI_Allreduce(x, ours, kPairs, type, MPI_SUM, MPI_COMM_WORLD);
  expect_sum(ours, theirs, MPI_COMM_WORLD, what);
  for (r = 0; r < size; ++r) {
    memset(got, 0, sizeof got);
    MPI_Reduce(x, got, kPairs, type, MPI_SUM, r, MPI_COMM_WORLD);
    if (rank == r) expect((memcmp(got, theirs, sizeof theirs) != 0) == lossy, what);
  }
  MPI_Reduce_scatter_block(x, got, kPairs / size, type, MPI_SUM, MPI_COMM_WORLD);
  r = 2 * (kPairs / size);
  expect((memcmp(got, theirs + (size_t)(rank * r), (size_t)r * sizeof *got) != 0) == lossy, what);
}

int main(int argc, char** argv) {
  MPI_Datatype rows, integers;
  int i;
  MPI_Init(&argc, &argv);
  begin(argc, argv);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  summed(MPI_C_FLOAT_COMPLEX, "MPI_C_FLOAT_COMPLEX");
  summed(MPI_COMPLEX, "MPI_COMPLEX");
  summed(MPI_CXX_FLOAT_COMPLEX, "MPI_CXX_FLOAT_COMPLEX");
  for (i = 0; i < 3; ++i) {
    MPI_Type_contiguous(4, MPI_FLOAT, &rows);
    MPI_Type_commit(&rows);
    moved(rows, kN / 4, "rows");
    MPI_Type_free(&rows);
    MPI_Type_contiguous(4, MPI_INT, &integers); /* may get the handle of rows */
    MPI_Type_commit(&integers);
    {
      const int was = lossy;
      lossy = 0;
      moved(integers, kN / 4, "integers");
      lossy = was;
    }
    MPI_Type_free(&integers);
  }
  moved(MPI_C_FLOAT_COMPLEX, kPairs, "complex numbers");
  return end();
}
