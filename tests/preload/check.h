/* What the test programs share: vectors, one sum made both ways, and the count of what went wrong. A program
 * is called as PROGRAM MODE exact|lossy. The vectors hold small whole numbers, whose sums every algorithm of
 * MPI makes exactly, so that what differs from them was compressed. */
#ifndef CHECK_H
#define CHECK_H

#include "tests/preload/beneath.h"

#include <stdio.h>
#include <stdlib.h>

enum { kN = 40000 };
static float x[kN], ours[kN], theirs[kN];
static int failures = 0, rank = 0, size = 1, lossy = 0;

static void expect(int ok, const char* what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "rank %d: %s\n", rank, what);
}

/* Reads the arguments, fills x. Call it after MPI_Init. */
static const char* begin(int argc, char** argv) {
  int i;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  lossy = argc > 2 && strcmp(argv[2], "lossy") == 0;
  for (i = 0; i < kN; ++i) x[i] = (float)((i * 17 + rank * 31) % 101 - 40);
  return argc > 1 ? argv[1] : "";
}

/* Is a the same on all ranks of comm? Past the preload library, so that it is not what is being tested. */
static int same_on_all_ranks(const float* a, MPI_Comm comm) {
  float* least = malloc(2 * sizeof x);
  float* most = least + kN;
  int same;
  beneath()(a, least, kN, MPI_FLOAT, MPI_MIN, comm);
  beneath()(a, most, kN, MPI_FLOAT, MPI_MAX, comm);
  same = memcmp(least, most, sizeof x) == 0;
  free(least);
  return same;
}

/* Is got what it should be, where exact is MPI's own sum? */
static void expect_sum(const float* got, const float* exact, MPI_Comm comm, const char* where) {
  char what[200];
  snprintf(what, sizeof what, "%s: %s", where, lossy ? "not compressed" : "changed");
  expect((memcmp(got, exact, sizeof x) != 0) == lossy, what);
  snprintf(what, sizeof what, "%s: ranks differ", where);
  expect(same_on_all_ranks(got, comm), what);
}

/* One sum over comm: compressed or exact, as the program was told. */
static void sum(MPI_Comm comm, const char* where) {
  expect(MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS, where);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, comm);
  expect_sum(ours, theirs, comm, where);
}

/* Ends MPI; the exit status of the program. */
static int end(void) {
  int total = failures;
  MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return total != 0;
}

#endif
