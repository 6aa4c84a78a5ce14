/* Reduce-scatters of a program that is not recompiled: scatter MODE exact|lossy. Modes: all, guard (each
 * sum is replaced by the exact one), feedback (results add up to the exact sums). */
#include "tests/preload/check.h"

#include <math.h>

enum { kPart = kN / 4 };

/* This rank's part of the exact sum: every second part is longer, so that two ranks have uneven ones. */
static void exact_part(const int* counts, float* part) {
  int r, begin = 0;
  for (r = 0; r < rank; ++r) begin += counts[r];
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  memcpy(part, theirs + begin, (size_t)counts[rank] * sizeof *part);
}

static void expect_part(const float* got, const float* wanted, int n, const char* what) {
  int differs = memcmp(got, wanted, (size_t)n * sizeof *got) != 0, any = 0;
  beneath()(&differs, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  expect(any == lossy, what);
}

static void all_forms(void) {
  static float wanted[kN], in_place[kN];
  int counts[64], equal[64], r;
  for (r = 0; r < size; ++r) {
    equal[r] = kPart;
    counts[r] = r % 2 ? kPart + 100 : kPart - 100;
  }
  exact_part(equal, wanted);
  expect(MPI_Reduce_scatter_block(x, ours, kPart, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS,
         "block");
  expect_part(ours, wanted, kPart, "MPI_Reduce_scatter_block");
  memcpy(in_place, x, sizeof x);
  MPI_Reduce_scatter_block(MPI_IN_PLACE, in_place, kPart, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect_part(in_place, wanted, kPart, "MPI_Reduce_scatter_block in place");
  exact_part(counts, wanted);
  expect(MPI_Reduce_scatter(x, ours, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "by rank");
  expect_part(ours, wanted, counts[rank], "MPI_Reduce_scatter");
  memcpy(in_place, x, sizeof x);
  MPI_Reduce_scatter(MPI_IN_PLACE, in_place, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect_part(in_place, wanted, counts[rank], "MPI_Reduce_scatter in place");
#if MPI_VERSION >= 4
  {
    MPI_Count large[64];
    for (r = 0; r < size; ++r) large[r] = counts[r];
    MPI_Reduce_scatter_c(x, ours, large, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    expect_part(ours, wanted, counts[rank], "MPI_Reduce_scatter_c");
    exact_part(equal, wanted);
    MPI_Reduce_scatter_block_c(x, ours, kPart, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    expect_part(ours, wanted, kPart, "MPI_Reduce_scatter_block_c");
  }
#endif
}

/* What no rule reaches: another operation, another type, few elements. */
static void others(void) {
  int i, small[64], part[1], whole[64];
  static float least[kPart], most[kN];
  for (i = 0; i < size; ++i) small[i] = whole[i] = 1;
  MPI_Reduce_scatter(whole, part, small, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(part[0] == size, "integers");
  MPI_Reduce_scatter_block(x, least, kPart, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD);
  beneath()(x, most, kN, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD);
  expect(memcmp(least, most + rank * kPart, sizeof least) == 0, "least elements");
}

/* What one call leaves out comes with the next ones. */
static void feedback(void) {
  static double wanted[kPart], got[kPart];
  static float part[kPart];
  double gap = 0, size_of_sum = 0;
  int equal[64], i, step;
  for (i = 0; i < size; ++i) equal[i] = kPart;
  exact_part(equal, part);
  for (step = 0; step < 60; ++step) {
    MPI_Reduce_scatter_block(x, ours, kPart, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < kPart; ++i) {
      got[i] += ours[i];
      wanted[i] += part[i];
    }
  }
  for (i = 0; i < kPart; ++i) {
    gap += pow(got[i] - wanted[i], 2);
    size_of_sum += pow(wanted[i], 2);
  }
  expect(sqrt(gap / size_of_sum) < 0.1, "what was left out is lost");
}

int main(int argc, char** argv) {
  const char* mode;
  MPI_Init(&argc, &argv);
  mode = begin(argc, argv);
  if (strcmp(mode, "feedback") == 0) {
    feedback();
  } else {
    all_forms();
    others();
  }
  return end();
}
