/* A collective of a program that is not recompiled and runs to be advised:
 * advised COLLECTIVE even|uneven|in_place|huge|others. The vectors are sines, other ones on each rank. What
 * is gathered or broadcast is compared with what came by messages, bit for bit, and sums with the exact ones.
 * huge: doubles that bf16 cannot hold, with peaks that cost int8 too many digits. others: see there. */
#include "tests/preload/check.h"

#include <math.h>

enum { kCalls = 8, kMost = 16 };
static float in[kN], out[kN], all[kMost * kN], total[kN];
static int counts[kMost], displs[kMost], uneven = 0, in_place = 0;

/* The vectors of all ranks, by messages that the library does not see. */
static void share(void) {
  int r, i;
  for (i = 0; i < kN; ++i) in[i] = sinf((float)(i * (rank + 1)));
  for (r = 0; r < size; ++r)
    MPI_Sendrecv(in, kN, MPI_FLOAT, r, 0, all + (size_t)r * kN, kN, MPI_FLOAT, r, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  beneath()(in, total, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Even parts, or the last rank has none and the first has its elements, too. */
static void divide(void) {
  int r, at = 0;
  for (r = 0; r < size; ++r) {
    counts[r] = kN / size;
    if (uneven && r == 0) counts[r] *= 2;
    if (uneven && r == size - 1) counts[r] = 0;
    displs[r] = at;
    at += counts[r];
  }
}

/* A sum by another algorithm may be rounded otherwise. */
static void expect_near(const float* got, const float* wanted, int n, const char* what) {
  int i;
  for (i = 0; i < n; ++i)
    if (!(fabsf(got[i] - wanted[i]) <= 1e-5F * (float)size)) {
      expect(0, what);
      return;
    }
}

static void reduce_scatter(void) {
  const void* from = in;
  float* to = out;
  divide();
  if (in_place) {
    memcpy(out, in, sizeof in);
    from = MPI_IN_PLACE;
  }
  if (uneven)
    MPI_Reduce_scatter(from, to, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else
    MPI_Reduce_scatter_block(from, to, kN / size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect_near(to, total + displs[rank], counts[rank], "reduce_scatter");
}

static void allgather(void) {
  int r;
  divide();
  memset(out, 0, sizeof out);
  if (in_place) memcpy(out + displs[rank], in, (size_t)counts[rank] * sizeof *in);
  if (uneven)
    MPI_Allgatherv(in_place ? MPI_IN_PLACE : in, counts[rank], MPI_FLOAT, out, counts, displs, MPI_FLOAT,
                   MPI_COMM_WORLD);
  else
    MPI_Allgather(in_place ? MPI_IN_PLACE : in, counts[rank], MPI_FLOAT, out, counts[rank], MPI_FLOAT,
                  MPI_COMM_WORLD);
  for (r = 0; r < size; ++r)
    expect(memcmp(out + displs[r], all + (size_t)r * kN, (size_t)counts[r] * sizeof *out) == 0, "allgather");
}

static void bcast(int root) {
  if (rank == root)
    memcpy(out, in, sizeof in);
  else
    memset(out, 0, sizeof out);
  MPI_Bcast(out, kN, MPI_FLOAT, root, MPI_COMM_WORLD);
  expect(memcmp(out, all + (size_t)root * kN, sizeof out) == 0, "bcast");
}

/* Only the root gives a buffer for the sum. MPICH 4.0's own crashes in place on another rank than 0. */
static void reduce(int root) {
  const int here = in_place && rank == root;
  if (here) memcpy(out, in, sizeof in);
  MPI_Reduce(here ? MPI_IN_PLACE : in, rank == root ? out : NULL, kN, MPI_FLOAT, MPI_SUM, root,
             MPI_COMM_WORLD);
  if (rank == root) expect_near(out, total, kN, "reduce");
}

/* Calls that no advice is for, and whose ranks differ in what MPI lets them differ in: none may wait. */
static void others(void) {
  MPI_Datatype row;
  MPI_Comm half, inter;
  static double ends[kN];
  const int color = rank % 2;
  MPI_Type_vector(kN / 2, 1, 2, MPI_FLOAT, &row); /* with gaps */
  MPI_Type_commit(&row);
  MPI_Bcast(all, rank == 0 ? kN / 2 : 1, rank == 0 ? MPI_FLOAT : row, 0, MPI_COMM_WORLD);
  MPI_Type_free(&row);
  MPI_Bcast(out, kN * 4, MPI_BYTE, 0, MPI_COMM_WORLD);
  MPI_Bcast(out, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD);
  MPI_Reduce(in, out, kN, MPI_FLOAT, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Allgather(in, kN / size, MPI_FLOAT, ends, kN / size * 4, MPI_BYTE, MPI_COMM_WORLD);
  MPI_Comm_split(MPI_COMM_WORLD, color, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 7, &inter);
  MPI_Bcast(out, kN, MPI_FLOAT, color ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

/* Only what the advice says is looked at. */
static void of_huge_values(const char* word) {
  static double from[kN], to[kN];
  int i;
  for (i = 0; i < kN; ++i) from[i] = 1e100 * (i % 128 == 0 ? 60 : in[i]);
  if (strcmp(word, "reduce_scatter") == 0)
    MPI_Reduce_scatter_block(from, to, kN / size, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (strcmp(word, "allgather") == 0)
    MPI_Allgather(from, kN / size, MPI_DOUBLE, to, kN / size, MPI_DOUBLE, MPI_COMM_WORLD);
  if (strcmp(word, "bcast") == 0) MPI_Bcast(from, kN, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (strcmp(word, "reduce") == 0) MPI_Reduce(from, to, kN, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void of_floats(const char* word, int call) {
  if (strcmp(word, "reduce_scatter") == 0) reduce_scatter();
  if (strcmp(word, "allgather") == 0) allgather();
  if (strcmp(word, "bcast") == 0) bcast(call % size);
  if (strcmp(word, "reduce") == 0) reduce(in_place ? 0 : call % size);
}

int main(int argc, char** argv) {
  const char *word, *how = argc > 2 ? argv[2] : "even";
  int i;
  MPI_Init(&argc, &argv);
  word = begin(argc, argv);
  uneven = strcmp(how, "uneven") == 0;
  in_place = strcmp(how, "in_place") == 0;
  share();
  if (strcmp(how, "others") == 0) {
    others();
    return end();
  }
  for (i = 0; i < kCalls; ++i)
    if (strcmp(how, "huge") == 0)
      of_huge_values(word);
    else
      of_floats(word, i);
  return end();
}
