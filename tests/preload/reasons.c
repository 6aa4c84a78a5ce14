/* Calls that MPI reduces, one program run for each reason: reasons MODE exact|lossy. The result is checked
 * here, against MPI's own; report_test.py has the table of modes, policies and what the report has to say. */
#include "tests/preload/check.h"

static int refuses = 0;

/* In front of the C library's: gives the library no memory for its messages. */
void* aligned_alloc(size_t alignment, size_t bytes) {
  void* made = NULL;
  if (refuses) return NULL;
  return posix_memalign(&made, alignment, bytes) == 0 ? made : NULL;
}

static void overlap(void) {
  static float both[kN + 4], exact[kN + 4];
  memcpy(both, x, sizeof x);
  memcpy(exact, x, sizeof x);
  MPI_Allreduce(both, both + 4, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(exact, exact + 4, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect(memcmp(both, exact, sizeof both) == 0, "not what MPI makes of it");
}

static void memory(void) {
  refuses = 1;
  sum(MPI_COMM_WORLD, "without memory");
  refuses = 0;
}

static void plain(void) { sum(MPI_COMM_WORLD, "a sum"); }

static void twice(void) {
  plain();
  plain();
}

static void off(void) {
  MPI_Pcontrol(0);
  plain();
}

/* One rank alone is switched off. */
static void split(void) {
  if (rank == 1) MPI_Pcontrol(0);
  plain();
}

static void alone(void) {
  MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
  expect(memcmp(ours, x, sizeof x) == 0, "a sum of one rank was changed");
}

static void small(void) {
  MPI_Allreduce(x, ours, 100, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(x, theirs, 100, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect(memcmp(ours, theirs, 100 * sizeof *x) == 0, "a short sum was changed");
}

static void op(void) {
  MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  expect(memcmp(ours, theirs, sizeof x) == 0, "a maximum was changed");
}

/* Over the intercommunicator of the even and the odd ranks. */
static void inter(void) {
  MPI_Comm half, between;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &between);
  MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, between);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, between);
  expect(memcmp(ours, theirs, sizeof x) == 0, "a sum of an intercommunicator was changed");
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

/* The program has taken all communicators that this MPI can make. */
static void communicators(void) {
  enum { kMost = 100000 };
  static MPI_Comm comms[kMost];
  int made = 0, i;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  while (made < kMost && MPI_Comm_dup(MPI_COMM_WORLD, &comms[made]) == MPI_SUCCESS) ++made;
  expect(made < kMost, "this MPI gives any number of communicators");
  plain();
  for (i = 0; i < made; ++i) MPI_Comm_free(&comms[i]);
}

/* An argument that MPI would refuse: all ranks get an error, and no rank a result. */
static void bad_argument(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  expect(MPI_Allreduce(x, rank == 0 ? NULL : ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS,
         "no error");
}

static int handled = 0;

static void count_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  ++handled;
}

/* MPI alone sees the null handle, so it reports it once. */
static void null(void) {
  MPI_Errhandler counts;
  MPI_Comm_create_errhandler(count_error, &counts);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, counts);
  expect(MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL) != MPI_SUCCESS, "no error");
  expect(handled == 1, "the error handler was not called once");
  MPI_Errhandler_free(&counts);
}

static const struct {
  const char* name;
  void (*run)(void);
} modes[] = {{"plain", plain},
             {"twice", twice},
             {"overlap", overlap},
             {"memory", memory},
             {"off", off},
             {"split", split},
             {"alone", alone},
             {"small", small},
             {"op", op},
             {"inter", inter},
             {"communicators", communicators},
             {"bad_argument", bad_argument},
             {"null", null}};

int main(int argc, char** argv) {
  const char* mode;
  size_t i;
  MPI_Init(&argc, &argv);
  mode = begin(argc, argv);
  for (i = 0; i < sizeof modes / sizeof *modes; ++i)
    if (strcmp(mode, modes[i].name) == 0) {
      modes[i].run();
      return end();
    }
  return 2;
}
