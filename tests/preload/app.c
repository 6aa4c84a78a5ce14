/* An unmodified MPI program, to run with and without the preload library. Calls MPI_Allreduce in every way
 * and compares with MPI's own function.
 *
 *   app exact         every result must have MPI's bits
 *   app lossy         large float sums must differ from them, be close, and be equal on all ranks; all else
 *                     exact
 *   app lossy_if_able the same, unless the library says that this processor lacks the instructions
 *   app error         the first large float sum must return an error, whose text is printed by rank 0
 *   app many          more communicators than MPI has
 *   app sessions      without MPI_Init */
#include "tests/preload/beneath.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kN = 100000 };
static float x[kN], ours[kN], theirs[kN];
static double xd[kN], oursd[kN], theirsd[kN];
static int ix[kN], iours[kN], itheirs[kN];
static int failures = 0, rank = 0;

static void expect(int ok, const char* what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "rank %d: %s\n", rank, what);
}

static int same_on_all_ranks(const void* p, int bytes) {
  void* root = malloc((size_t)bytes);
  int same, all = 0;
  memcpy(root, p, (size_t)bytes);
  MPI_Bcast(root, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  same = memcmp(root, p, (size_t)bytes) == 0;
  free(root);
  MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all;
}

static double relative_error(void) {
  double error = 0, energy = 0;
  int i;
  for (i = 0; i < kN; ++i) {
    error += pow((double)ours[i] - theirs[i], 2);
    energy += pow(theirs[i], 2);
  }
  return sqrt(error / energy);
}

/* The calls that no policy may touch. */
static void always_exact(void) {
  MPI_Datatype pair;
  MPI_Allreduce(x, ours, 100, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(x, theirs, 100, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect(memcmp(ours, theirs, 100 * sizeof(float)) == 0, "a small sum was changed");
  MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  expect(memcmp(ours, theirs, sizeof ours) == 0, "a maximum was changed");
  MPI_Allreduce(ix, iours, kN, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(ix, itheirs, kN, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(memcmp(iours, itheirs, sizeof iours) == 0, "a sum of integers was changed");
  MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
  expect(memcmp(ours, x, sizeof ours) == 0, "a sum over one rank was changed");
  MPI_Type_contiguous(2, MPI_FLOAT, &pair);
  MPI_Type_commit(&pair);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  expect(MPI_Allreduce(x, ours, kN / 2, pair, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS,
         "MPI's own error is gone");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free(&pair);
}

static void large_sums(int lossy) {
  MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect((memcmp(ours, theirs, sizeof ours) != 0) == lossy,
         lossy ? "not compressed" : "changed without a policy");
  expect(relative_error() < 1.5, "far from the sum");
  expect(same_on_all_ranks(ours, sizeof ours), "ranks differ");
  memcpy(ours, x, sizeof x);
  MPI_Allreduce(MPI_IN_PLACE, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect((memcmp(ours, theirs, sizeof ours) != 0) == lossy, "in place: wrong path");
  MPI_Allreduce(xd, oursd, kN, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  beneath()(xd, theirsd, kN, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect((memcmp(oursd, theirsd, sizeof oursd) != 0) == lossy, "doubles: wrong path");
#if MPI_VERSION >= 4
  MPI_Allreduce_c(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect((memcmp(ours, theirs, sizeof ours) != 0) == lossy, "MPI_Allreduce_c: wrong path");
#endif
}

/* More communicators than MPICH could give if each used one of the library's own as well. */
static void many_communicators(void) {
  enum { kComms = 1500 };
  static MPI_Comm comms[kComms];
  int i, code = MPI_SUCCESS;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (i = 0; i < kComms && code == MPI_SUCCESS; ++i) {
    code = MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (code == MPI_SUCCESS) code = MPI_Allreduce(x, ours, 20000, MPI_FLOAT, MPI_SUM, comms[i]);
  }
  expect(code == MPI_SUCCESS, "the library takes communicators away");
}

#if MPI_VERSION >= 4
/* A program without MPI_Init, and so without MPI_COMM_SELF. */
static int sessions(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  int i, size = 0, bad = 0;
  for (i = 0; i < kN; ++i) x[i] = 0.1f;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS) return 1;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "shim_app", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_size(comm, &size);
  MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, comm);
  bad = memcmp(ours, theirs, sizeof ours) != 0;
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  return bad;
}
#endif

/* Parents give the program to spawn, children have a parent. */
static void over_spawned(char* program) {
  static char child[] = "spawn";
  char* arguments[2];
  MPI_Comm parent, between, all;
  arguments[0] = child;
  arguments[1] = NULL;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL)
    between = parent;
  else
    MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &all);
  MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, all);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, all);
  expect(memcmp(ours, theirs, sizeof ours) == 0, "compressed over ranks outside of MPI_COMM_WORLD");
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&between);
}

/* The error of the first large sum, or "". The program prints it: Open MPI can lose the words of an abort. */
static const char* first_error(void) {
  static char text[MPI_MAX_ERROR_STRING];
  int code, length = 0;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  code = MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  if (code == MPI_SUCCESS) return "";
  MPI_Error_string(code, text, &length);
  if (rank == 0) printf("%s\n", text);
  return text;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "exact";
  int i, total = 0;
#if MPI_VERSION >= 4
  if (strcmp(mode, "sessions") == 0) return sessions();
#endif
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  srand((unsigned)rank + 1);
  for (i = 0; i < kN; ++i) {
    x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    xd[i] = (double)x[i] / 3;
    ix[i] = rand() % 1000;
  }
  if (strcmp(mode, "error") == 0) {
    expect(first_error()[0] != '\0', "no error");
  } else if (strcmp(mode, "lossy_if_able") == 0 && strstr(first_error(), "this processor has no") != NULL) {
    MPI_Finalize();
    return 0;
  } else if (strcmp(mode, "many") == 0) {
    many_communicators();
  } else if (strcmp(mode, "spawn") == 0) {
    over_spawned(argc > 2 ? argv[2] : NULL);
  } else {
    always_exact();
    large_sums(strncmp(mode, "lossy", 5) == 0);
    always_exact();
  }
  PMPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return total != 0;
}
