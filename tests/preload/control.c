/* What an unmodified program, or one with MPI_Pcontrol and info in it, gets from rules: control MODE. Each
 * mode says in its function under which policy it runs. Exits 0 if every rank saw what it should. */
#include "tests/preload/beneath.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#  include <immintrin.h>
#endif

enum { kN = 40000, kCommand = 0x4D51 };
static float x[kN], y[kN], exact[kN];
static int rank, size, failures = 0;

static void expect(int ok, const char* what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "rank %d: %s\n", rank, what);
}

static void fill(float scale) {
  int i;
  for (i = 0; i < kN; ++i) x[i] = scale * ((float)rand() / (float)RAND_MAX - 0.5f);
}

static int is_compressed(MPI_Comm comm, int n) {
  beneath()(x, exact, n, MPI_FLOAT, MPI_SUM, comm);
  return memcmp(y, exact, (size_t)n * sizeof *y) != 0;
}

/* Is the sum compressed? Alike on all ranks, or that is a failure. */
static int compresses(MPI_Comm comm, int n) {
  int mine, all, n_ranks;
  expect(MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS, "an error");
  mine = is_compressed(comm, n);
  beneath()(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm_size(comm, &n_ranks);
  expect(all == 0 || all == n_ranks, "compressed on some ranks only");
  return mine;
}

static double relative_error(const double* got, const double* wanted) {
  double error = 0, energy = 0;
  int i;
  for (i = 0; i < kN; ++i) {
    error += pow(got[i] - wanted[i], 2);
    energy += pow(wanted[i], 2);
  }
  return sqrt(error / energy);
}

/* One sum of random values with a key, added to what was delivered and to what was brought. */
static void sum_with_key(double* delivered, double* brought) {
  int i;
  fill(1);
  MPI_Pcontrol(kCommand, "key=layer");
  MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(x, exact, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (i = 0; i < kN; ++i) {
    delivered[i] += y[i];
    brought[i] += exact[i];
  }
}

static int world(void) { return compresses(MPI_COMM_WORLD, kN); }

/* Exported, so that they have names; not inlined. */
int sum_far(void);
int sum_near(void);
__attribute__((noinline)) int sum_far(void) {
  const int code = MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return code == MPI_SUCCESS && is_compressed(MPI_COMM_WORLD, kN);
}
__attribute__((noinline)) int sum_near(void) {
  const int code = MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return code == MPI_SUCCESS && is_compressed(MPI_COMM_WORLD, kN);
}

/* site=*sum_far*: onebit */
static void sites(void) {
  int i;
  for (i = 0; i < 5; ++i) {
    expect(sum_far(), "a site of the rule is exact");
    expect(!sum_near(), "another site is compressed");
    /* The ranks call from different sites, which is legal. */
    expect(!(rank == 0 ? sum_far() : sum_near()), "compressed where the ranks differ");
  }
  expect(sum_far(), "exact after the ranks had differed");
}

/* : onebit */
static void pcontrol(void) {
  expect(world(), "not compressed at first");
  MPI_Pcontrol(0);
  expect(!world(), "compressed though switched off");
  MPI_Pcontrol(1);
  expect(world(), "not compressed though switched on");
  MPI_Pcontrol(kCommand, "exact");
  expect(!world(), "compressed in an exact scope");
  MPI_Pcontrol(kCommand, "end");
  expect(world(), "not compressed behind the scope");
  if (rank == 0) MPI_Pcontrol(0);
  expect(!world(), "compressed though switched off on one rank");
  MPI_Pcontrol(1);
  expect(world(), "not compressed in the end");
  expect(MPI_Pcontrol(kCommand, "nonsense") != MPI_SUCCESS, "an unknown command is obeyed");
  expect(MPI_Pcontrol(2) == MPI_SUCCESS, "another tool's level is an error");
}

/* With feedback the mean of many results of one vector comes close to its sum; without it does not. Every
 * step sums two vectors of different scale. */
static double mean_error(void (*name)(int layer), int steps) {
  static double mean[kN], wanted[kN];
  static float big[kN], small[kN];
  int step, i;
  fill(100);
  memcpy(big, x, sizeof x);
  fill(1);
  memcpy(small, x, sizeof x);
  memset(mean, 0, sizeof mean);
  for (step = 0; step < steps; ++step) {
    if (name != NULL) name(-1);
    if (name != NULL) name(0);
    MPI_Allreduce(big, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (name != NULL) name(1);
    MPI_Allreduce(small, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < kN; ++i) mean[i] += y[i] / (double)steps;
  }
  beneath()(small, exact, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (i = 0; i < kN; ++i) wanted[i] = exact[i];
  return relative_error(mean, wanted);
}

static void by_key(int layer) {
  if (layer >= 0) MPI_Pcontrol(kCommand, layer == 0 ? "key=big" : "key=small");
}
static void by_number(int layer) {
  if (layer >= 0) MPI_Pcontrol((kCommand << 16) + layer);
}
static void by_step(int layer) {
  if (layer < 0) MPI_Pcontrol(kCommand, "step");
}
/* : onebit [feedback=address|sequence] */
static void feedback(const char* how) {
  const double without = 0.45, with = 0.1;
  if (strcmp(how, "none") == 0) expect(mean_error(NULL, 100) > without, "feedback without an identity");
  if (strcmp(how, "address") == 0) expect(mean_error(NULL, 100) < with, "no feedback by address");
  if (strcmp(how, "sequence") == 0) expect(mean_error(by_step, 100) < with, "no feedback by position");
  if (strcmp(how, "key") == 0) {
    expect(mean_error(by_key, 100) < with, "no feedback by key");
    expect(mean_error(by_number, 100) < with, "no feedback by number");
  }
}

/* : onebit feedback=address: a buffer whose vectors have nothing in common. */
static void strangers(void) {
  int step;
  for (step = 0; step < 70; ++step) {
    fill(1);
    expect(world(), "not compressed");
  }
}

/* : onebit: nothing is lost when the residuals are flushed. */
static void flush(void) {
  static double delivered[kN], brought[kN];
  int step;
  for (step = 0; step < 12; ++step) {
    if (step == 11) MPI_Pcontrol(kCommand, "flush");
    sum_with_key(delivered, brought);
  }
  expect(relative_error(delivered, brought) < 1e-5, "a flush does not deliver what waited");
  expect(world(), "exact after the flush");
}

/* : onebit guard=3 error=0.01 */
static void guard(void) {
  int i;
  fill(1);
  expect(!world(), "the first call is guarded, and over the budget");
  for (i = 0; i < 8; ++i) expect(!world(), "a rule that was given up compresses");
}

/* : bf16 guard=3 error=0.01; : bound(abs=0.01) guard=3 */
static void guard_within(void) {
  int i;
  fill(1);
  for (i = 0; i < 8; ++i) expect(world(), "a rule within its budget was given up");
}

/* : onebit guard=4 error=0.05: the sum of the first four calls is over the budget. The sum of what a tensor
 * brings stays whole when its rule is given up. */
static void guard_keeps(void) {
  static double delivered[kN], brought[kN];
  int step;
  for (step = 0; step < 9; ++step) sum_with_key(delivered, brought);
  expect(!world(), "the rule was not given up");
  expect(relative_error(delivered, brought) < 1e-5, "what waited was lost with the rule");
}

/* : onebit feedback=address guard=16 error=0.5: single calls are over the budget, but not their sums. */
static void guard_sums(void) {
  int i;
  fill(1);
  for (i = 0; i < 100; ++i) expect(world(), "the right use of feedback was given up");
}

/* 4K-64K small: onebit */
static void small(void) {
  fill(1);
  expect(compresses(MPI_COMM_WORLD, 1024), "4 KiB are exact");
  expect(compresses(MPI_COMM_WORLD, 16383), "just below 64 KiB is exact");
  expect(!compresses(MPI_COMM_WORLD, 1023), "below 4 KiB is compressed");
  expect(!compresses(MPI_COMM_WORLD, 16384), "64 KiB, which no rule names, are compressed");
}

/* The info has the only policy. */
static void infos(void) {
  MPI_Comm with, differs, bad;
  MPI_Info info;
  fill(1);
  expect(!world(), "compressed without a policy");
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_policy", ": onebit");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &with);
  expect(compresses(with, kN), "the communicator's policy is ignored");
  MPI_Comm_dup(MPI_COMM_WORLD, &differs);
  if (rank == 0) MPI_Comm_set_info(differs, info);
  expect(!compresses(differs, kN), "a policy of one rank compresses");
  MPI_Comm_dup(MPI_COMM_WORLD, &bad);
  MPI_Comm_set_errhandler(bad, MPI_ERRORS_RETURN);
  MPI_Info_set(info, "mpiq_policy", ": twobit");
  expect(MPI_Comm_set_info(bad, info) != MPI_SUCCESS, "bad rules are no error");
  MPI_Info_set(info, "mpiq_policy", ": bf16");
  MPI_Comm_set_errhandler(with, MPI_ERRORS_RETURN);
  expect(MPI_Comm_set_info(with, info) != MPI_SUCCESS, "rules after the first large sum are no error");
  expect(MPI_Comm_set_info(bad, info) == MPI_SUCCESS, "good rules are an error");
  expect(compresses(bad, kN), "good rules are ignored");
  MPI_Info_free(&info);
  MPI_Comm_free(&with);
  MPI_Comm_free(&differs);
  MPI_Comm_free(&bad);
}

static void aborts(void) { MPI_Abort(MPI_COMM_WORLD, 3); }

/* Any policy: the forms that are never replaced, and all kinds of calls for a report. */
static void others(void) {
  MPI_Request request;
  fill(1);
  MPI_Iallreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(!is_compressed(MPI_COMM_WORLD, kN), "MPI_Iallreduce is not MPI's");
#if MPI_VERSION >= 4
  MPI_Allreduce_init(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  expect(!is_compressed(MPI_COMM_WORLD, kN), "MPI_Allreduce_init is not MPI's");
#endif
  MPI_Allreduce(x, y, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(x, y, kN, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
  MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Ranks that differ in mode or policy: exact, and no hang. */
static void differ(void) {
  fill(1);
  expect(!world(), "compressed though the ranks differ");
}

/* Any policy that compresses. A rank whose program takes subnormals for zero gets the bits of the others. */
static void subnormals(void) {
  static float first[kN];
  int i;
  fill(1e-38f);
#if defined(__x86_64__)
  if (rank == 0) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  for (i = 0; i < 3; ++i) {
    MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    memcpy(first, y, sizeof y);
    MPI_Bcast(first, kN, MPI_FLOAT, 0, MPI_COMM_WORLD);
    expect(memcmp(first, y, sizeof y) == 0, "the ranks differ");
  }
#if defined(__x86_64__)
  expect(rank != 0 || (_mm_getcsr() & 0x8040) == 0x8040, "the program's floating-point mode was changed");
#endif
}

/* : f16. Where MPI has a name for half precision; what MPI itself makes of it is another matter. */
static void halves(void) {
#ifdef MPIX_C_FLOAT16
  static const unsigned short of_number[16] = {0,      0x3c00, 0x4000, 0x4200, 0x4400, 0x4500,
                                               0x4600, 0x4700, 0x4800, 0x4880, 0x4900, 0x4980,
                                               0x4a00, 0x4a80, 0x4b00, 0x4b80};
  static unsigned short in[2 * kN], out[2 * kN];
  int i, wrong = 0;
  for (i = 0; i < 2 * kN; ++i) in[i] = of_number[i % 5];
  MPI_Allreduce(in, out, 2 * kN, MPIX_C_FLOAT16, MPI_SUM, MPI_COMM_WORLD);
  for (i = 0; i < 2 * kN; ++i) wrong += out[i] != of_number[size * (i % 5)];
  expect(wrong == 0, "a sum of half precision is wrong");
#endif
}

/* : auto(error=0.5). Whatever it chooses: results are within the limit, and the same on all ranks. Meanwhile
 * one rank switches the library off and on again. */
static void many(void) {
  int i, k;
  for (k = 0; k < 120; ++k) {
    double error = 0, energy = 0;
    float greatest;
    fill((float)(1 + k % 3));
    if (rank == 0 && k == 30) MPI_Pcontrol(kCommand, "exact");
    if (rank == 0 && k == 40) MPI_Pcontrol(kCommand, "end");
    MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    beneath()(x, exact, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < kN; ++i) {
      error += pow(y[i] - exact[i], 2);
      energy += pow(exact[i], 2);
    }
    expect(error <= 0.25 * energy, "a result is over the limit");
    beneath()(&y[k], &greatest, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    expect(greatest == y[k], "the ranks have different results");
  }
}

static const struct {
  const char* name;
  void (*run)(void);
} modes[] = {{"sites", sites},
             {"pcontrol", pcontrol},
             {"flush", flush},
             {"guard", guard},
             {"guard_within", guard_within},
             {"guard_keeps", guard_keeps},
             {"guard_sums", guard_sums},
             {"small", small},
             {"infos", infos},
             {"aborts", aborts},
             {"others", others},
             {"strangers", strangers},
             {"differ", differ},
             {"subnormals", subnormals},
             {"halves", halves},
             {"many", many}};

int main(int argc, char** argv) {
  size_t i;
  int total = 0, found = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  srand((unsigned)rank + 1);
  fill(1);
  for (i = 0; i < sizeof modes / sizeof modes[0]; ++i)
    if (strcmp(argv[1], modes[i].name) == 0) {
      modes[i].run();
      found = 1;
    }
  if (strcmp(argv[1], "feedback") == 0) {
    feedback(argv[2]);
    found = 1;
  }
  expect(found, "no such mode");
  beneath()(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return total != 0;
}
