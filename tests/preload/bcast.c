/* Broadcasts of a program that is not recompiled: bcast all exact|lossy. */
#include "tests/preload/check.h"

#include <math.h>

static float got[kN], wanted[kN];

/* Fills `got` on the root, and with something else on the others; and `wanted` on all, by an exact sum of
 * vectors that are zero on all but the root. */
static void prepare(int root) {
  static float mine[kN];
  int i;
  for (i = 0; i < kN; ++i) {
    got[i] = rank == root ? x[i] : -7;
    mine[i] = rank == root ? x[i] : 0;
  }
  beneath()(mine, wanted, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void expect_vector(const char* what, int root) {
  char words[100];
  int i;
  double error = 0, energy = 0;
  snprintf(words, sizeof words, "%s, root %d: %s", what, root, lossy ? "not compressed" : "changed");
  expect((memcmp(got, wanted, sizeof wanted) != 0) == lossy, words);
  snprintf(words, sizeof words, "%s, root %d: ranks differ", what, root);
  expect(same_on_all_ranks(got, MPI_COMM_WORLD), words);
  for (i = 0; i < kN; ++i) {
    error += pow(got[i] - wanted[i], 2);
    energy += pow(wanted[i], 2);
  }
  snprintf(words, sizeof words, "%s, root %d: not the root's vector", what, root);
  expect(error < 0.8 * energy, words);
}

static void all_forms(void) {
  int root;
  for (root = 0; root < size; ++root) {
    prepare(root);
    expect(MPI_Bcast(got, kN, MPI_FLOAT, root, MPI_COMM_WORLD) == MPI_SUCCESS, "bcast");
    expect_vector("MPI_Bcast", root);
    prepare(root);
    PMPI_Bcast(got, kN, MPI_FLOAT, root, MPI_COMM_WORLD);
    expect_vector("PMPI_Bcast", root);
#if MPI_VERSION >= 4
    prepare(root);
    MPI_Bcast_c(got, kN, MPI_FLOAT, root, MPI_COMM_WORLD);
    expect_vector("MPI_Bcast_c", root);
#endif
  }
}

/* What no rule reaches: short vectors, other types; and errors are MPI's. */
static void others(void) {
  int number = rank, i;
  MPI_Bcast(&number, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
  expect(number == size - 1, "an integer");
  prepare(0);
  MPI_Bcast(got, kN * 4, MPI_BYTE, 0, MPI_COMM_WORLD);
  expect(memcmp(got, wanted, sizeof wanted) == 0, "bytes");
  prepare(0);
  MPI_Bcast(got, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD);
  expect(memcmp(got, wanted, 1000 * sizeof *got) == 0, "a short vector");
  for (i = 1000; i < kN; ++i) expect(rank == 0 || got[i] == -7, "behind a short vector");
  if (!lossy) { /* without a rule nothing is compared, so ranks may differ in what MPI lets them differ in */
    MPI_Datatype whole;
    MPI_Type_contiguous(kN, MPI_FLOAT, &whole);
    MPI_Type_commit(&whole);
    prepare(0);
    MPI_Bcast(got, rank == 0 ? kN : 1, rank == 0 ? MPI_FLOAT : whole, 0, MPI_COMM_WORLD);
    expect(memcmp(got, wanted, sizeof wanted) == 0, "other types for the same elements");
    MPI_Type_free(&whole);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  expect(MPI_Bcast(got, kN, MPI_FLOAT, size, MPI_COMM_WORLD) != MPI_SUCCESS, "no such root");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  (void)begin(argc, argv);
  all_forms();
  others();
  return end();
}
