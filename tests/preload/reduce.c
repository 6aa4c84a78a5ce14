/* Reductions to a root of a program that is not recompiled: reduce all|feedback|roots exact|lossy. */
#include "tests/preload/check.h"

#include <math.h>

static float got[kN], wanted[kN];

static void prepare(void) {
  int i;
  for (i = 0; i < kN; ++i) got[i] = -7;
  beneath()(x, wanted, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* The root has the sum, the others still have what they had. */
static void expect_reduced(const char* what, int root) {
  char words[100];
  int i;
  double error = 0, energy = 0;
  for (i = 0; i < kN && rank != root; ++i) expect(got[i] == -7, "a rank that is not the root got something");
  if (rank != root) return;
  snprintf(words, sizeof words, "%s, root %d: %s", what, root, lossy ? "not compressed" : "changed");
  expect((memcmp(got, wanted, sizeof wanted) != 0) == lossy, words);
  for (i = 0; i < kN; ++i) {
    error += pow(got[i] - wanted[i], 2);
    energy += pow(wanted[i], 2);
  }
  snprintf(words, sizeof words, "%s, root %d: not the sum", what, root);
  expect(error < 0.8 * energy, words);
}

static void all_forms(void) {
  int root;
  for (root = 0; root < size; ++root) {
    prepare();
    expect(MPI_Reduce(x, got, kN, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD) == MPI_SUCCESS, "reduce");
    expect_reduced("MPI_Reduce", root);
    prepare();
    PMPI_Reduce(x, rank == root ? got : NULL, kN, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
    expect_reduced("PMPI_Reduce", root);
    if (root == 0 || lossy) { /* MPICH 4.0's own crashes in place on another rank than 0 */
      prepare();
      if (rank == root) memcpy(got, x, sizeof x);
      MPI_Reduce(rank == root ? MPI_IN_PLACE : x, got, kN, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
      expect_reduced("MPI_Reduce in place", root);
    }
#if MPI_VERSION >= 4
    prepare();
    MPI_Reduce_c(x, got, kN, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
    expect_reduced("MPI_Reduce_c", root);
#endif
  }
}

/* What no rule reaches: other types, operations and short vectors; and errors are MPI's. */
static void others(void) {
  int sum = -1, i;
  MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  expect(sum == (rank == 0 ? size * (size - 1) / 2 : -1), "integers");
  prepare();
  MPI_Reduce(x, got, 1000, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  for (i = 0; i < 1000 && rank == 0; ++i) expect(got[i] == wanted[i], "a short vector");
  beneath()(x, wanted, kN, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Reduce(x, got, kN, MPI_FLOAT, MPI_MAX, 0, MPI_COMM_WORLD);
  expect(rank != 0 || memcmp(got, wanted, sizeof wanted) == 0, "MPI_MAX");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  expect(MPI_Reduce(x, got, kN, MPI_FLOAT, MPI_SUM, size, MPI_COMM_WORLD) != MPI_SUCCESS, "no such root");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The sum of many results is right, though each is off. */
static void feedback(void) {
  enum { kSteps = 60 };
  static double all[kN], exact[kN];
  double error = 0, energy = 0;
  int step, i;
  for (step = 0; step < kSteps; ++step) {
    prepare();
    MPI_Reduce(x, got, kN, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    for (i = 0; i < kN; ++i) {
      all[i] += got[i];
      exact[i] += wanted[i];
    }
  }
  for (i = 0; i < kN; ++i) {
    error += pow(all[i] - exact[i], 2);
    energy += pow(exact[i], 2);
  }
  expect(rank != 0 || error < 0.01 * energy, "what was left out did not come later");
}

/* Each rank is the root in turn. The guard, which judges many calls together, has no reason to give up. */
static void roots(void) {
  int step, root;
  for (step = 0; step < 90; ++step) {
    root = step % size;
    prepare();
    MPI_Pcontrol(0x4D51, "key=a"); /* MPIQ_PCONTROL */
    MPI_Reduce(x, got, kN, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
    if (rank == root) expect((memcmp(got, wanted, sizeof wanted) != 0) == lossy, "given up by the guard");
  }
}

int main(int argc, char** argv) {
  const char* mode;
  MPI_Init(&argc, &argv);
  mode = begin(argc, argv);
  if (strcmp(mode, "feedback") == 0) {
    feedback();
  } else if (strcmp(mode, "roots") == 0) {
    roots();
  } else {
    all_forms();
    others();
  }
  return end();
}
