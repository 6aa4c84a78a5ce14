/* Calls that MPI reduces, one program run for each reason: reasons MODE exact|lossy. The result is checked
 * here, against MPI's own; report_test.py has the table of modes, policies and what the report has to say. */
#include "tests/preload/check.h"

#if MPI_VERSION < 4 && defined(OPEN_MPI)
#  include <mpi-ext.h>
#endif

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

/* The result of a call is in ours, of which n elements are wanted. */
static void complete(int code, int starts, MPI_Request* request, const float* wanted, int n,
                     const char* what) {
  expect(code == MPI_SUCCESS, what);
  if (starts) MPI_Start(request);
  MPI_Wait(request, MPI_STATUS_IGNORE);
  if (starts) MPI_Request_free(request);
  expect(memcmp(ours, wanted, (size_t)n * sizeof *wanted) == 0, what);
  memset(ours, 0, sizeof ours);
}

/* The forms of all collectives that are counted, on up to four ranks. */
static void forms(void) {
  enum { kPart = kN / 4 };
  static float parts[kN], mine[kN], of_root[kN], zeros[kN];
  const float *const sums = rank == 0 ? theirs : zeros, *const part = theirs + rank * kPart;
  const MPI_Comm all = MPI_COMM_WORLD;
  const int gathered = size * kPart;
  int counts[4], displs[4], i;
  MPI_Request r;
  for (i = 0; i < 4; ++i) {
    counts[i] = kPart;
    displs[i] = i * kPart;
  }
  memcpy(mine + rank * kPart, x, kPart * sizeof *x);
  beneath()(mine, parts, kN, MPI_FLOAT, MPI_SUM, all);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, all);
  for (i = 0; i < kN; ++i) of_root[i] = (float)((i * 17) % 101 - 40);
#define DONE(name, starts, wanted, n, ...) complete(name(__VA_ARGS__, &r), starts, &r, wanted, n, #name)
#define ALL_FORMS(I, suffix, starts, ...)                                                                  \
  DONE(I(Reduce, reduce, suffix), starts, sums, kN, x, ours, kN, MPI_FLOAT, MPI_SUM, 0, all __VA_ARGS__);  \
  DONE(I(Reduce_scatter, reduce_scatter, suffix), starts, part, kPart, x, ours, counts##suffix, MPI_FLOAT, \
       MPI_SUM, all __VA_ARGS__);                                                                          \
  DONE(I(Reduce_scatter_block, reduce_scatter_block, suffix), starts, part, kPart, x, ours, kPart,         \
       MPI_FLOAT, MPI_SUM, all __VA_ARGS__);                                                               \
  DONE(I(Allgather, allgather, suffix), starts, parts, gathered, x, kPart, MPI_FLOAT, ours, kPart,         \
       MPI_FLOAT, all __VA_ARGS__);                                                                        \
  DONE(I(Allgatherv, allgatherv, suffix), starts, parts, gathered, x, kPart, MPI_FLOAT, ours,              \
       counts##suffix, displs##suffix, MPI_FLOAT, all __VA_ARGS__);                                        \
  memcpy(ours, x, sizeof x);                                                                               \
  DONE(I(Bcast, bcast, suffix), starts, of_root, kN, ours, kN, MPI_FLOAT, 0, all __VA_ARGS__)
#define NONBLOCKING(name, small, suffix) MPI_I##small##suffix
#define PERSISTENT(name, small, suffix) MPI_##name##_init##suffix
#define EXTENSION(name, small, suffix) MPIX_##name##_init
  ALL_FORMS(NONBLOCKING, , 0, );
#if MPI_VERSION >= 4
  MPI_Count counts_c[4];
  MPI_Aint displs_c[4];
  for (i = 0; i < 4; ++i) {
    counts_c[i] = kPart;
    displs_c[i] = (MPI_Aint)i * kPart;
  }
  ALL_FORMS(NONBLOCKING, _c, 0, );
  ALL_FORMS(PERSISTENT, , 1, , MPI_INFO_NULL);
  ALL_FORMS(PERSISTENT, _c, 1, , MPI_INFO_NULL);
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
  ALL_FORMS(EXTENSION, , 1, , MPI_INFO_NULL);
#endif
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
             {"null", null},
             {"forms", forms}};

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
