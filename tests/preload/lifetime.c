/* Communicators come and go under the preload library. lifetime MODE exact|lossy, where MODE is
 * cycles      hundreds of communicators, one after the other: nothing may be left of them
 * leak        communicators that the program never frees
 * attributes  the program's attribute callbacks run as if the library were not there
 * finalize    sums in callbacks that MPI_Finalize runs, before and after the library has ended
 * reported    the same under a report, with which the library ends after all of them
 * atexit      MPI_Finalize, and a sum, where static objects are gone already */
#include "tests/preload/check.h"

#include <unistd.h>

static long resident_kib(void) {
  char line[200];
  long kib = 0;
  FILE* const file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) (void)sscanf(line, "VmRSS: %ld", &kib);
  if (file != NULL) fclose(file);
  return kib;
}

static void cycles(void) {
  /* A leaked vector a cycle would be 48 MB. Two tests at a time are four ranks on two cores, which wait for
   * their turn at each message: a cycle then takes 25 ms in place of 1, without the library too. */
  enum { kCycles = 500, kWarm = 100, kMostKib = 1024 };
  long before = 0, growth;
  int i;
  for (i = 0; i < kCycles; ++i) {
    MPI_Comm copy, part;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(copy, 0, -rank, &part); /* ranks in reverse */
    if (i % 100 == 0) {
      sum(copy, "a duplicate");
      sum(part, "a part");
    } else {
      MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, copy);
      MPI_Allreduce(MPI_IN_PLACE, ours, kN, MPI_FLOAT, MPI_SUM, part);
    }
    MPI_Comm_free(&copy);
    MPI_Comm_free(&part);
    if (i == kWarm) before = resident_kib();
  }
  growth = resident_kib() - before;
  if (growth > kMostKib) fprintf(stderr, "rank %d: %ld KiB more\n", rank, growth);
  expect(growth <= kMostKib, "memory grows with the number of communicators");
}

static void leak(void) {
  int i;
  for (i = 0; i < 20; ++i) {
    MPI_Comm left;
    MPI_Comm_dup(MPI_COMM_WORLD, &left);
    sum(left, "one that is never freed");
  }
}

/* What the program's callbacks saw, as text. */
static char seen[1000];
static void note(char what, MPI_Comm comm, const void* value) {
  char name[MPI_MAX_OBJECT_NAME] = "?", line[MPI_MAX_OBJECT_NAME + 32];
  int length = 0;
  PMPI_Comm_get_name(comm, name, &length);
  snprintf(line, sizeof line, "%c%c of %s; ", what, *(const char*)value, name);
  strncat(seen, line, sizeof seen - strlen(seen) - 1);
}

static int copied(MPI_Comm comm, int key, void* extra, void* value, void* copy, int* flag) {
  (void)key;
  (void)extra;
  note('+', comm, value);
  memcpy(copy, &value, sizeof value);
  *flag = 1;
  return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void* value, void* extra) {
  (void)key;
  (void)extra;
  note('-', comm, value);
  return MPI_SUCCESS;
}

/* The life of a communicator with attributes, set before its first sum and after it. */
static void life(allreduce_function allreduce, char* log) {
  static char values[4] = "abc";
  MPI_Comm comm, copy;
  int keys[3], i;
  seen[0] = '\0';
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_name(comm, "comm");
  for (i = 0; i < 3; ++i) {
    MPI_Comm_create_keyval(copied, deleted, &keys[i], NULL);
    MPI_Comm_set_attr(comm, keys[i], &values[i]);
    if (i != 1) continue;
    allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm);
    expect(seen[0] == '\0', "a sum ran attribute callbacks");
  }
  MPI_Comm_dup(comm, &copy);
  MPI_Comm_set_name(copy, "copy");
  allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, copy);
  MPI_Comm_delete_attr(copy, keys[1]);
  MPI_Comm_free(&comm);
  allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, copy);
  MPI_Comm_free(&copy);
  for (i = 0; i < 3; ++i) MPI_Comm_free_keyval(&keys[i]);
  strcpy(log, seen);
}

static void attributes(void) {
  char with[sizeof seen], without[sizeof seen];
  life(beneath(), without);
  life(MPI_Allreduce, with);
  expect(strlen(without) > 50 && strcmp(with, without) == 0, "other callbacks, or in another order");
  if (strcmp(with, without) != 0) fprintf(stderr, "%s\nand not\n%s\n", with, without);
  sum(MPI_COMM_WORLD, "after it all");
}

static int sums_while_active(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  sum(MPI_COMM_WORLD, "before the library's end");
  return MPI_SUCCESS;
}

static int is_reported = 0;

static int sums_last(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  lossy = lossy && is_reported;
  sum(MPI_COMM_WORLD, "after the library's end");
  if (failures > 0) _exit(1);
  return MPI_SUCCESS;
}

/* Attributes of MPI_COMM_SELF go in the reverse order, at the start of MPI_Finalize. */
static void in_finalize(void) {
  int first, last;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sums_last, &first, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, first, NULL);
  sum(MPI_COMM_WORLD, "the first sum");
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sums_while_active, &last, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, last, NULL);
}

static void end_at_exit(void) {
  sum(MPI_COMM_WORLD, "at exit");
  if (end() != 0) _exit(1);
}

int main(int argc, char** argv) {
  const int at_exit = argc > 1 && strcmp(argv[1], "atexit") == 0;
  const char* mode;
  if (at_exit)
    atexit(end_at_exit); /* before MPI_Init, so it runs after the ends of all that is loaded from here on */
  MPI_Init(&argc, &argv);
  mode = begin(argc, argv);
  if (strcmp(mode, "cycles") == 0) cycles();
  if (strcmp(mode, "leak") == 0) leak();
  if (strcmp(mode, "attributes") == 0) attributes();
  is_reported = strcmp(mode, "reported") == 0;
  if (strcmp(mode, "finalize") == 0 || is_reported) in_finalize();
  sum(MPI_COMM_WORLD, "the last sum");
  return at_exit ? 0 : end();
}
