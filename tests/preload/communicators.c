/* As many communicators as MPI gives without the library, whose own must not run out nor take them away.
 * communicators MODE exact|lossy, where MODE is
 * first   a sum on each as it is made, all alive at once: the library's own is there when it is needed
 * late    all are made before the first sum: none is left for the library, whose sums stay exact
 * mixed   as `first`, of three orders of the ranks and in changing numbers, with some freed on the way
 * where lossy says that the policy compresses these sums, as long as the library has a communicator. The
 * program has an error handler of its own, which must be called for its own calls only. */
#include "tests/preload/check.h"

/* MPICH has some 2,050 communicators, Open MPI more than these. Most are of one rank, which take no time. */
enum { kAlone = 1700, kMost = 500, kShort = 5000 };
static MPI_Comm alone[kAlone];
static MPI_Comm comms[kMost];
static int made = 0, heard = 0;

static void hear(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  ++heard;
}

/* One more if MPI has one, on all ranks or on none. order: 0: as in the world. */
static int make(int order) {
  const int before = heard;
  const int place = order == 0 ? rank : order == 1 ? -rank : (rank + 1) % size;
  int code = made == kMost ? MPI_ERR_OTHER
             : order == 0  ? MPI_Comm_dup(MPI_COMM_WORLD, &comms[made])
                           : MPI_Comm_split(MPI_COMM_WORLD, 0, place, &comms[made]);
  heard = before;
  made += code == MPI_SUCCESS;
  return code == MPI_SUCCESS;
}

/* The sum of every rank's vector, which is the same in any order, made here. */
static void sum_on(MPI_Comm comm, int compressed) {
  static float exact[kShort];
  int i, r, code;
  if (exact[1] == 0)
    for (i = 0; i < kShort; ++i)
      for (r = 0; r < size; ++r) exact[i] += (float)((i * 17 + r * 31) % 101 - 40);
  memset(ours, 0, sizeof exact);
  code = MPI_Allreduce(x, ours, kShort, MPI_FLOAT, MPI_SUM, comm);
  expect(code == MPI_SUCCESS, "a sum ended in an error");
  expect((memcmp(ours, exact, sizeof exact) != 0) == compressed, compressed ? "not compressed" : "changed");
}

static void free_all(void) {
  while (made > 0) MPI_Comm_free(&comms[--made]);
}

static void first(void) {
  while (make(0)) sum_on(comms[made - 1], lossy);
  expect(made > 300, "the library takes communicators away");
  free_all();
}

static void late(void) {
  int i;
  while (make(0)) continue;
  for (i = 0; i < made; i += 20) sum_on(comms[i], lossy && made == kMost);
  free_all();
  make(0); /* there is one for the library again */
  sum_on(comms[0], lossy);
  free_all();
}

static void mixed(void) {
  int i, round;
  for (round = 0; round < 3; ++round) {
    for (i = 0; i < 100 && make(i % 3); ++i)
      if (i % 5 != 4) sum_on(comms[made - 1], lossy);
    for (i = 0; i < 60; ++i) {
      sum_on(comms[made - 1], lossy);
      MPI_Comm_free(&comms[--made]);
    }
  }
  for (i = 0; i < made; ++i) sum_on(comms[i], lossy);
  free_all();
}

int main(int argc, char** argv) {
  const char* mode;
  MPI_Errhandler handler;
  int i;
  MPI_Init(&argc, &argv);
  mode = begin(argc, argv);
  MPI_Comm_create_errhandler(hear, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  for (i = 0; i < kAlone; ++i) MPI_Comm_dup(MPI_COMM_SELF, &alone[i]);
  if (strcmp(mode, "first") == 0) first();
  if (strcmp(mode, "late") == 0) late();
  if (strcmp(mode, "mixed") == 0) mixed();
  for (i = 0; i < kAlone; ++i) MPI_Comm_free(&alone[i]);
  expect(heard == 0, "the program's error handler was called");
  sum_on(MPI_COMM_WORLD, lossy);
  MPI_Errhandler_free(&handler);
  return end();
}
