/* Ranks that say different things, and programs that make it hard to keep account: apart MODE. Each mode says
 * under which policy it runs, and that it ends is part of what is tested. */
#include "tests/preload/check.h"

#include <math.h>
#include <unistd.h>

enum { kCommand = 0x4D51 };
static float other[kN];
static double delivered[kN], brought[kN];

static void fill(float* v, float scale) {
  int i;
  for (i = 0; i < kN; ++i) v[i] = scale * ((float)rand() / (float)RAND_MAX - 0.5f);
}

/* Is the sum compressed? Alike on all ranks, with the same bits, or that is a failure. */
static int compresses(const float* v) {
  int mine, all;
  expect(MPI_Allreduce(v, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "an error");
  beneath()(v, theirs, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  mine = memcmp(ours, theirs, sizeof ours) != 0;
  beneath()(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(all == 0 || all == size, "compressed on some ranks only");
  expect(same_on_all_ranks(ours, MPI_COMM_WORLD), "the ranks differ");
  return mine;
}

static int with_key(const char* command, const float* v) {
  MPI_Pcontrol(kCommand, command);
  return compresses(v);
}

/* Adds the last sum to what was delivered and brought; how far these are apart. */
static void add(void) {
  int i;
  for (i = 0; i < kN; ++i) {
    delivered[i] += ours[i];
    brought[i] += theirs[i];
  }
}
static double missing(void) {
  double error = 0, energy = 0;
  int i;
  for (i = 0; i < kN; ++i) {
    error += pow(delivered[i] - brought[i], 2);
    energy += pow(brought[i], 2);
  }
  return sqrt(error / energy);
}

/* : raw guard=1: a flush is raw as well, and only one rank has something to flush. */
static void raw_guard(void) {
  int i;
  for (i = 0; i < 3; ++i) {
    if (rank == 0) MPI_Pcontrol(kCommand, "key=a");
    (void)compresses(x);
    MPI_Pcontrol(kCommand, "flush");
  }
}

/* Two call sites, of rules with the same care and different methods: 1 if the sum is compressed. */
int site_a(void);
int site_b(void);
__attribute__((noinline)) int site_a(void) {
  const int code = MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return code == MPI_SUCCESS ? memcmp(ours, theirs, sizeof ours) != 0 : -1;
}
__attribute__((noinline)) int site_b(void) {
  const int code = MPI_Allreduce(other, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(other, theirs, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return code == MPI_SUCCESS ? memcmp(ours, theirs, sizeof ours) != 0 : -1;
}

/* site=*site_a*: onebit feedback=address guard=4; site=*site_b*: bf16 feedback=address guard=4 */
static void site_flush(void) {
  int i;
  fill(x, 1);
  fill(other, 1);
  for (i = 0; i < 6; ++i) expect(site_a() == 1 && site_b() == 1, "not compressed before the flush");
  MPI_Pcontrol(kCommand, "flush");
  expect((rank == 0 ? site_a() : site_b()) >= 0, "an error where the ranks differ");
  for (i = 0; i < 16; ++i) expect(site_a() >= 0 && site_b() >= 0, "an error after a flush");
  expect(site_a() == 1 && site_b() == 1, "not compressed after the flush");
}

/* : onebit feedback=address: after a flush one rank has a new buffer. */
static void flush_split(void) {
  int i, compressed = 0;
  for (i = 0; i < 6; ++i) expect(compresses(x), "exact before the flush");
  MPI_Pcontrol(kCommand, "flush");
  memcpy(other, x, sizeof x);
  for (i = 0; i < 8; ++i) compressed += compresses(rank == 1 ? other : x);
  expect(compressed >= 6, "a flush that one rank cannot make stops compression");
}

/* : onebit guard=5 error=0.8: tensor a is judged at step 4, and b, from then on, at step 8, when the rule is
 * given up; what waits of a is not lost. */
static void trip(void) {
  int step, i;
  for (step = 0; step < 10; ++step) {
    fill(x, 1);
    (void)with_key("key=a", x);
    add();
    fill(other, 1);
    for (i = 0; step == 8 && i < kN; i += 2048) other[i] = 1000;
    (void)with_key("key=b", other);
  }
  expect(!compresses(x), "the rule was not given up");
  fill(x, 1);
  (void)with_key("key=a", x);
  add();
  expect(missing() < 1e-5, "what waited of another tensor was lost");
}

/* Makes a tensor of noise: a tensor's large elements stay large. */
static void shape(float* v, int tensor) {
  int i;
  for (i = 0; i < kN; ++i) v[i] *= (float)(1 << (i * 17 + tensor * i / 7) % 6);
}

/* : onebit feedback=sequence: a sum that stays exact has its position too. */
static void sequence(void) {
  int step;
  for (step = 0; step < 20; ++step) {
    MPI_Pcontrol(kCommand, "step");
    fill(x, 1);
    shape(x, 0);
    if (step == 18) MPI_Pcontrol(kCommand, "exact");
    (void)compresses(x);
    if (step == 18) MPI_Pcontrol(kCommand, "end");
    if (step == 19) MPI_Pcontrol(kCommand, "flush");
    fill(other, 1);
    shape(other, 1);
    (void)compresses(other);
    add();
  }
  expect(missing() < 1e-5, "one tensor's residual went to another");
}

/* : onebit: a key is for the next sum that may be compressed. */
static void small_key(void) {
  int step;
  for (step = 0; step < 20; ++step) {
    if (step == 19) MPI_Pcontrol(kCommand, "flush");
    MPI_Pcontrol(kCommand, "key=a");
    MPI_Allreduce(x, ours, 2000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    fill(x, 1);
    (void)compresses(x);
    add();
  }
  expect(missing() < 1e-5, "a small sum took the key");
}

/* : onebit guard=2 error=10: Inf is no error of the method. */
static void infinite(void) {
  int i;
  x[5] = INFINITY;
  (void)MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  x[5] = 1;
  fill(x, 1);
  for (i = 0; i < 5; ++i) expect(compresses(x), "the rule was given up for an Inf");
}

/* Any policy, with a report: a communicator's handle is given to the next. */
static void reuse(void) {
  static const char* const names[] = {"first", "second"};
  MPI_Comm comm;
  int i;
  for (i = 0; i < 2; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, names[i]);
    MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm);
    MPI_Allreduce(x, ours, 1, MPI_FLOAT, MPI_SUM, comm);
    MPI_Comm_free(&comm);
  }
}

/* With a report: rank 1 ends MPI while rank 0 still takes anything from anybody. */
static void wildcards(void) {
  int r, got = 0;
  MPI_Status status;
  if (rank == 2) sleep(1);
  if (rank != 0) MPI_Send(&rank, 1, MPI_INT, 0, rank, MPI_COMM_WORLD);
  for (r = 1; rank == 0 && r < size; ++r) {
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    expect(got == status.MPI_SOURCE && got == status.MPI_TAG, "a message that no rank sent");
  }
}

/* With a report, and a watchdog of a second: rank 0 is late. */
static void late(void) {
  (void)compresses(x);
  if (rank == 0) sleep(3);
}

/* The same without a sum, so that no rank knows of the others' reports: rank 0 comes when nobody waits any
 * more. */
static void too_late(void) {
  if (rank == 0) sleep(12);
}

/* Tools behind the library hear all that they are told. */
static void tools(void) { MPI_Pcontrol(2, "phase", 7, 3.5, -1.25, 1, 2, 3, 4, 5); }

static const struct {
  const char* name;
  void (*run)(void);
} modes[] = {{"raw_guard", raw_guard}, {"site_flush", site_flush}, {"flush_split", flush_split},
             {"trip", trip},           {"sequence", sequence},     {"small_key", small_key},
             {"infinite", infinite},   {"reuse", reuse},           {"wildcards", wildcards},
             {"late", late},           {"too_late", too_late},     {"tools", tools}};

int main(int argc, char** argv) {
  const char* mode;
  size_t i;
  int found = 0;
  MPI_Init(&argc, &argv);
  mode = begin(argc, argv);
  srand((unsigned)rank + 1);
  for (i = 0; i < sizeof modes / sizeof modes[0]; ++i)
    if (strcmp(mode, modes[i].name) == 0) {
      modes[i].run();
      found = 1;
    }
  if (!found || failures > 0) fprintf(stderr, "rank %d: %d failures in %s\n", rank, failures, mode);
  MPI_Finalize(); /* at once: some modes are about ranks that come early or late */
  return !found || failures > 0;
}
