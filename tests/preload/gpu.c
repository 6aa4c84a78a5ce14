/* An unmodified program with vectors on a GPU, whose driver it has preloaded: MPI_Allreduce of device memory
 * gives what it gives of host memory, under a policy that compresses. argv[1]: "same", or "guard": the exact
 * sum, because the policy's error budget is too small for any code; "fails": the same, but rank 0's GPU does
 * not take it; "capture": rank 0 captures a stream: MPI's sum; "captures": all do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { kCount = 20000, kCalls = 4 };

static void* find(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {
    fprintf(stderr, "no %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return found;
}

static int (*init)(unsigned);
static int (*retain)(void**, int);
static int (*set_current)(void*);
static int (*allocate)(void**, size_t);
static int (*copy)(void*, const void*, size_t);

static void expect(int ok, const char* what) {
  if (ok) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static float* on_gpu(const float* values) {
  void* p = NULL;
  expect(allocate(&p, kCount * sizeof(float)) == 0, "cuMemAlloc");
  expect(copy(p, values, kCount * sizeof(float)) == 0, "cuMemcpy");
  return p;
}

static int is_sum(const float* got, int size) {
  for (int i = 0; i < kCount; ++i) {
    double sum = 0;
    for (int r = 0; r < size; ++r) sum += sinf((float)(i * (r + 1))) + 0.1F * (float)r;
    if (fabs(sum - got[i]) >= 1e-4) return 0;
  }
  return 1;
}

/* Rank 0's GPU does not take the exact sum: an error on all ranks, all of which have given the rule up. */
static void test_failure(const float* x, int rank, int size) {
  void (*fail)(const char*, long, int) = NULL;
  void (*forget)(void) = NULL;
  long (*calls)(const char*) = NULL;
  *(void**)&fail = find("fake_cuda_fail");
  *(void**)&forget = find("fake_cuda_forget");
  *(void**)&calls = find("fake_cuda_calls");
  long copies = 0;
  for (int call = 0; call < 3; ++call) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    static float host[kCount];
    memcpy(host, x, sizeof host);
    float* const vector = rank == 0 ? on_gpu(x) : host;
    forget();
    if (rank == 0 && call == 2) fail("cuMemcpyAsync", copies, 700);
    const int code = MPI_Allreduce(MPI_IN_PLACE, vector, kCount, MPI_FLOAT, MPI_SUM, comm);
    expect((code == MPI_SUCCESS) == (call < 2), "not the same on all ranks");
    copies = calls("cuMemcpyAsync");
    forget();
    memcpy(host, x, sizeof host);
    expect(MPI_Allreduce(MPI_IN_PLACE, host, kCount, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS, "after");
    expect(is_sum(host, size), "the rule was not given up");
    MPI_Comm_free(&comm);
  }
}

/* Rank 0, or each rank, captures a stream: MPI's sum, for all. Which here is let to touch the GPU's
 * memory. */
static void test_capture(const float* x, int captures, int size) {
  int (*create)(void**, unsigned) = NULL;
  int (*begin)(void*, int) = NULL;
  *(void**)&create = find("cuStreamCreate");
  *(void**)&begin = find("cuStreamBeginCapture_v2");
  static float host[kCount];
  memcpy(host, x, sizeof host);
  float* const vector = captures ? on_gpu(x) : host;
  if (captures) {
    void* stream = NULL;
    expect(create(&stream, 0) == 0 && begin(stream, 0) == 0, "no capture");
    char* const page = (char*)vector - (size_t)vector % 4096;
    const size_t bytes = (size_t)((char*)(vector + kCount) - page);
    expect(mprotect(page, bytes, PROT_READ | PROT_WRITE) == 0, "mprotect");
  }
  expect(MPI_Allreduce(MPI_IN_PLACE, vector, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS,
         "a guarded call during a capture");
  expect(is_sum(vector, size), "not the exact sum");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int guard = argc > 1 && strcmp(argv[1], "guard") == 0;
  *(void**)&init = find("cuInit");
  *(void**)&retain = find("cuDevicePrimaryCtxRetain");
  *(void**)&set_current = find("cuCtxSetCurrent");
  *(void**)&allocate = find("cuMemAlloc_v2");
  *(void**)&copy = find("cuMemcpy");
  void* context = NULL;
  expect(init(0) == 0 && retain(&context, 0) == 0 && set_current(context) == 0, "no GPU");

  static float x[kCount], host[kCount], got[kCount], zeros[kCount];
  for (int i = 0; i < kCount; ++i) x[i] = sinf((float)(i * (rank + 1))) + 0.1F * (float)rank;
  if (argc > 1 && strcmp(argv[1], "fails") == 0) test_failure(x, rank, size);
  if (argc > 1 && strcmp(argv[1], "capture") == 0) test_capture(x, rank == 0, size);
  if (argc > 1 && strcmp(argv[1], "captures") == 0) test_capture(x, 1, size);
  if (argc > 1 && strcmp(argv[1], "same") != 0 && !guard) return MPI_Finalize();
  float* const in = on_gpu(x);
  float* const out = on_gpu(zeros);
  /* Two vectors with the same history, one in each memory, and one in place. */
  for (int call = 0; call < kCalls; ++call) {
    if (!guard) {
      expect(MPI_Allreduce(x, host, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "host");
      expect(MPI_Allreduce(in, out, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "device");
      expect(copy(got, out, sizeof got) == 0, "cuMemcpy");
      expect(memcmp(got, host, sizeof got) == 0, "the sum on the GPU is not that on the host");
    }
    float* const both = on_gpu(x);
    expect(MPI_Allreduce(MPI_IN_PLACE, both, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS,
           "in place");
    expect(copy(got, both, sizeof got) == 0, "cuMemcpy");
    expect(!guard || is_sum(got, size), "the guard did not deliver the exact sum");
    if (guard) break; /* from now on MPI reduces, which knows no GPUs here */
  }
  /* What no policy serves is not looked at. */
  int most = 0;
  expect(MPI_Allreduce(&rank, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS && most == size - 1,
         "maximum");
  MPI_Finalize();
  return 0;
}
