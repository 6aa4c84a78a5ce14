/* A GPU that fails under an unmodified program's guarded sums: every call of the driver that a sum makes, in
 * turn, on rank 0. argv: the memory of the vectors, "managed" or "device"; "exact": the guard's budget is so
 * small that it delivers every sum it looks at, "lossy" and "keeps": so large that it delivers none; "cold":
 * the GPU is reset before, so that the first sum makes all anew. Of four sums the first or the third fails,
 * which are guarded, or the second, which under "lossy" is not. No rank waits for ever; the sum that fails is
 * an error on all ranks or right on all (an error on rank 0 alone, where it is not guarded), all others are
 * right. "keeps": with a residual, and nothing of what sums without an error bring is lost. MPI reads managed
 * memory, as one that knows GPUs. */
#include "tests/preload/beneath.h"

#include <math.h>
#include <stdio.h>

enum { kN = 1500, kCalls = 4, kSums = 7, kCommand = 0x4D51 };
static const char* const kFunctions[] = {"cuPointerGetAttributes",
                                         "cuDevicePrimaryCtxRetain",
                                         "cuDeviceGetAttribute",
                                         "cuCtxGetId",
                                         "cuCtxPushCurrent_v2",
                                         "cuThreadExchangeStreamCaptureMode",
                                         "cuStreamIsCapturing",
                                         "cuStreamCreate",
                                         "cuStreamSynchronize",
                                         "cuStreamWaitEvent",
                                         "cuEventCreate",
                                         "cuEventRecord",
                                         "cuEventQuery",
                                         "cuMemAlloc_v2",
                                         "cuMemHostAlloc",
                                         "cuMemcpyAsync",
                                         "cuMemsetD8Async",
                                         "cuModuleLoadDataEx",
                                         "cuModuleGetFunction",
                                         "cuLaunchKernel",
                                         "kernel"};
static const int kCodes[] = {2, 700, 999}; /* out of memory; an illegal address, which sticks; unknown */

static int (*init)(unsigned);
static int (*retain)(void**, int);
static int (*set_current)(void*);
static int (*reset)(int);
static int (*allocate)(void**, size_t);
static int (*allocate_managed)(void**, size_t, unsigned);
static int (*release)(void*);
static int (*copy)(void*, const void*, size_t);
static void (*fail)(const char*, long, int);
static void (*forget)(void);
static long (*count)(const char*);
static long (*ran)(const char*);

static int rank, size, failures = 0, managed, lossy, cold;
static float x[kN], exact[kN], clean[kN];
static char now[200];

static void* find(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {
    fprintf(stderr, "no %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return found;
}

static void find_all(void) {
  *(void**)&init = find("cuInit");
  *(void**)&retain = find("cuDevicePrimaryCtxRetain");
  *(void**)&set_current = find("cuCtxSetCurrent");
  *(void**)&reset = find("cuDevicePrimaryCtxReset_v2");
  *(void**)&allocate = find("cuMemAlloc_v2");
  *(void**)&allocate_managed = find("cuMemAllocManaged");
  *(void**)&release = find("cuMemFree_v2");
  *(void**)&copy = find("cuMemcpy");
  *(void**)&fail = find("fake_cuda_fail");
  *(void**)&forget = find("fake_cuda_forget");
  *(void**)&count = find("fake_cuda_calls");
  *(void**)&ran = find("fake_cuda_ran");
}

static void expect(int ok, const char* what) {
  if (ok) return;
  if (++failures < 20) fprintf(stderr, "rank %d: %s: %s\n", rank, now, what);
}

static void use_gpu(void) {
  void* context = NULL;
  if (init(0) != 0 || retain(&context, 0) != 0 || set_current(context) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
}

static float* on_gpu(const float* values) {
  void* p = NULL;
  if ((managed ? allocate_managed(&p, sizeof x, 1) : allocate(&p, sizeof x)) != 0 ||
      copy(p, values, sizeof x) != 0)
    MPI_Abort(MPI_COMM_WORLD, 2);
  return p;
}

/* 1: exact, 2: what is compressed where nothing fails, 0: neither. */
static int kind_of(const float* got) {
  int i, is_exact = 1;
  for (i = 0; i < kN; ++i) is_exact = is_exact && fabs((double)got[i] - exact[i]) < 1e-4;
  return is_exact ? 1 : memcmp(got, clean, sizeof clean) == 0 ? 2 : 0;
}

static int same_everywhere(int value) {
  int pair[2], most[2];
  pair[0] = value;
  pair[1] = -value;
  beneath()(pair, most, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return most[0] == -most[1];
}

/* One sum in place, which may fail. Its kind, or -1 for an error. */
static int sum(MPI_Comm comm, float* vector, float* got) {
  const int code = MPI_Allreduce(MPI_IN_PLACE, vector, kN, MPI_FLOAT, MPI_SUM, comm);
  forget();
  if (code != MPI_SUCCESS) return -1;
  return copy(got, vector, sizeof x) == 0 ? kind_of(got) : 0;
}

/* What asks for memory and gets none; that once is no reason for an error, for MPI can reduce. */
static int runs_short(const char* function, int code) {
  return code == 2 &&
         (strncmp(function, "cuMem", 5) == 0 || strstr(function, "Create") != NULL ||
          strcmp(function, "cuLaunchKernel") == 0 || strcmp(function, "cuModuleLoadDataEx") == 0);
}

/* kCalls sums on a communicator, of which the nth call of a function fails in the one that is to. */
static void scene(const char* function, long nth, int code, int failing) {
  static float got[kN];
  float* vector;
  MPI_Comm comm;
  int call;
  if (cold && reset(0) == 0) use_gpu();
  vector = on_gpu(x);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (call = 0; call < kCalls; ++call) {
    int kind;
    snprintf(now, sizeof now, "%s %ld fails with %d in sum %d; sum %d", function, nth, code, failing, call);
    forget();
    if (copy(vector, x, sizeof x) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0 && call == failing) fail(function, nth, code);
    kind = sum(comm, vector, got);
    expect(same_everywhere(kind) || (call == failing && call == 1 && lossy), "not the same on all ranks");
    expect(kind > 0 || (kind < 0 && call == failing), kind < 0 ? "an error without a reason" : "a wrong sum");
    expect(kind < 2 || lossy, "the guard delivered what is not exact");
    expect(kind > 0 || !runs_short(function, code) || nth == 0 || (call == 1 && lossy),
           "no memory once is an error");
  }
  MPI_Comm_free(&comm);
  (void)release(vector);
}

/* What a sum calls, and what it gives, where nothing fails. */
static void run_clean(long* calls, int n_functions) {
  float* vector;
  MPI_Comm comm;
  int f;
  if (cold && reset(0) == 0) use_gpu();
  vector = on_gpu(x);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  forget();
  snprintf(now, sizeof now, "nothing fails");
  expect(MPI_Allreduce(MPI_IN_PLACE, vector, kN, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS, "an error");
  for (f = 0; f < n_functions; ++f)
    calls[f] = strcmp(kFunctions[f], "kernel") == 0 ? ran(NULL) : count(kFunctions[f]);
  beneath()(MPI_IN_PLACE, calls, n_functions, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
  copy(clean, vector, sizeof clean);
  expect((kind_of(clean) == 1) != lossy, "not what the policy says");
  (void)release(vector);
  MPI_Comm_free(&comm);
}

static void fail_in_turn(void) {
  enum { kFunctionCount = sizeof kFunctions / sizeof *kFunctions };
  static long calls[kFunctionCount];
  long nth;
  int f, c;
  run_clean(calls, kFunctionCount);
  for (f = 0; f < kFunctionCount; ++f)
    for (nth = 0; nth <= calls[f]; ++nth)
      for (c = 0; c < 3; ++c) {
        if (!managed && kCodes[c] == 2)
          continue; /* without memory MPI reduces, which cannot read a GPU's here */
        if (calls[f] > 12 && c != (nth + f) % 3) continue; /* too many to try them all */
        scene(kFunctions[f], nth, kCodes[c], lossy ? (int)((nth + c) % 3) : 0);
      }
}

/* Sums with a residual, of which every second one judges two, and one of those fails; the last flushes. True
 * if it failed and was delivered.
 */
static int keep(const char* function, long nth, int failing) {
  static double delivered[kN], brought[kN];
  static float got[kN];
  double error = 0, energy = 0;
  int step, i, errors = 0, replaced = 0;
  float* const vector = on_gpu(x);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  memset(delivered, 0, sizeof delivered);
  memset(brought, 0, sizeof brought);
  for (step = 0; step < kSums; ++step) {
    for (i = 0; i < kN; ++i) x[i] = sinf((float)(i * (rank + 1 + step)));
    beneath()(x, exact, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    snprintf(now, sizeof now, "keeps: %s %ld fails in sum %d; sum %d", function, nth, failing, step);
    MPI_Pcontrol(kCommand, "key=layer");
    if (step == kSums - 1) MPI_Pcontrol(kCommand, "flush");
    forget();
    if (copy(vector, x, sizeof x) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0 && step == failing) fail(function, nth, 999);
    i = sum(comm, vector, got);
    expect(same_everywhere(i < 0), "an error on some ranks only");
    errors += i < 0;
    /* Whole, though all of it is not yet what this sum brought. */
    replaced += step == failing && i >= 0;
    for (i = 0; i < kN; ++i) {
      delivered[i] += got[i];
      brought[i] += exact[i];
    }
  }
  for (i = 0; i < kN; ++i) {
    error += pow(delivered[i] - brought[i], 2);
    energy += pow(brought[i], 2);
  }
  expect(errors > 0 || sqrt(error / energy) < 1e-5, "what waited was lost, or delivered twice");
  MPI_Comm_free(&comm);
  (void)release(vector);
  return replaced && errors == 0;
}

static void fail_with_residual(void) {
  static const char* const kRun[] = {"cuLaunchKernel", "kernel", "cuEventRecord", "cuEventQuery",
                                     "cuMemcpyAsync"};
  int f, nth, delivered = 0;
  for (f = 0; f < 5; ++f)
    for (nth = 1; nth <= 8; ++nth) delivered += keep(kRun[f], nth, 1 + nth % 2 * 2);
  expect(delivered >= 10, "hardly a sum that failed was delivered");
}

int main(int argc, char** argv) {
  int i, total = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 2);
  managed = strcmp(argv[1], "managed") == 0;
  lossy = strcmp(argv[2], "exact") != 0;
  cold = strcmp(argv[3], "cold") == 0;
  find_all();
  use_gpu();
  for (i = 0; i < kN; ++i) x[i] = sinf((float)(i * (rank + 1))) + 0.1F * (float)rank;
  beneath()(x, exact, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (strcmp(argv[2], "keeps") == 0)
    fail_with_residual();
  else
    fail_in_turn();
  beneath()(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return total != 0;
}
