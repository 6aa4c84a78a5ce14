/* Allgathers of a program that is not recompiled: gather all|keyed exact|lossy. */
#include "tests/preload/check.h"

#include <math.h>

enum { kPart = kN / 4 };
static float wanted[kN];
static int equal[64], counts[64], displs[64];

/* The parts of all ranks, n elements of x each, by an exact sum of vectors that are zero elsewhere. */
static void exact_parts(const int* n, const int* at) {
  static float mine[kN];
  memset(mine, 0, sizeof mine);
  memcpy(mine + at[rank], x, (size_t)n[rank] * sizeof *x);
  beneath()(mine, wanted, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void expect_parts(const float* got, const char* what) {
  char words[100];
  snprintf(words, sizeof words, "%s: %s", what, lossy ? "not compressed" : "changed");
  expect((memcmp(got, wanted, sizeof wanted) != 0) == lossy, words);
  snprintf(words, sizeof words, "%s: ranks differ", what);
  expect(same_on_all_ranks(got, MPI_COMM_WORLD), words);
}

static void all_forms(void) {
  static float got[kN];
  int r, at = 0, follow[64];
  for (r = 0; r < size; ++r) {
    equal[r] = kPart;
    follow[r] = r * kPart;
    counts[r] = r % 2 ? kPart - 300 : kPart - 100;
    displs[r] = at;
    at += counts[r] + 100;
  }
  exact_parts(equal, follow);
  memset(got, 0, sizeof got);
  expect(MPI_Allgather(x, kPart, MPI_FLOAT, got, kPart, MPI_FLOAT, MPI_COMM_WORLD) == MPI_SUCCESS,
         "allgather");
  expect_parts(got, "MPI_Allgather");
  memset(got, 0, sizeof got);
  memcpy(got + rank * kPart, x, kPart * sizeof *x);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, kPart, MPI_FLOAT, MPI_COMM_WORLD);
  expect_parts(got, "MPI_Allgather in place");
#if MPI_VERSION >= 4
  MPI_Allgather_c(x, kPart, MPI_FLOAT, got, kPart, MPI_FLOAT, MPI_COMM_WORLD);
  expect_parts(got, "MPI_Allgather_c");
#endif
  exact_parts(counts, displs);
  memset(got, 0, sizeof got);
  expect(MPI_Allgatherv(x, counts[rank], MPI_FLOAT, got, counts, displs, MPI_FLOAT, MPI_COMM_WORLD) ==
             MPI_SUCCESS,
         "allgatherv");
  expect_parts(got, "MPI_Allgatherv");
#if MPI_VERSION >= 4
  {
    MPI_Count large[64];
    MPI_Aint places[64];
    for (r = 0; r < size; ++r) {
      large[r] = counts[r];
      places[r] = displs[r];
    }
    MPI_Allgatherv_c(x, counts[rank], MPI_FLOAT, got, large, places, MPI_FLOAT, MPI_COMM_WORLD);
    expect_parts(got, "MPI_Allgatherv_c");
  }
#endif
}

/* With a key, of which all ranks keep an estimate: the first gather is exact, and what follows is as near as
 * the values have changed. */
static void keyed(void) {
  enum { kCommand = 0x4D51 };
  static float got[kN];
  int step, i, r, at[64];
  for (r = 0; r < size; ++r) {
    equal[r] = kPart;
    at[r] = r * kPart;
  }
  for (step = 0; step < 3; ++step) {
    for (i = 0; i < kN && step > 0; ++i) x[i] += (float)((i + step) % 5) / 16;
    exact_parts(equal, at);
    memset(got, 0, sizeof got);
    MPI_Pcontrol(kCommand, "key=w");
    MPI_Allgather(x, kPart, MPI_FLOAT, got, kPart, MPI_FLOAT, MPI_COMM_WORLD);
    expect((memcmp(got, wanted, sizeof wanted) != 0) == (lossy && step > 0), "not what an estimate gives");
    expect(same_on_all_ranks(got, MPI_COMM_WORLD), "ranks differ");
    for (i = 0; i < kN; ++i)
      if (fabsf(got[i] - wanted[i]) > 0.5F) {
        expect(0, "far from the parts");
        break;
      }
  }
}

/* What no rule reaches: another type, or two types. */
static void others(void) {
  int all[64], r;
  static float bytes[kN];
  MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
  for (r = 0; r < size; ++r) expect(all[r] == r, "integers");
  exact_parts(equal, (int[64]){0, kPart, 2 * kPart, 3 * kPart});
  memset(bytes, 0, sizeof bytes);
  MPI_Allgather(x, kPart * 4, MPI_BYTE, bytes, kPart * 4, MPI_BYTE, MPI_COMM_WORLD);
  expect(memcmp(bytes, wanted, sizeof wanted) == 0, "bytes");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (strcmp(begin(argc, argv), "keyed") == 0) {
    keyed();
    return end();
  }
  all_forms();
  others();
  return end();
}
