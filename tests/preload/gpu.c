/* An unmodified program with vectors on a GPU, whose driver it has preloaded: MPI_Allreduce of device memory
 * gives what it gives of host memory, under a policy that compresses. argv[1]: "same", or "guard": the exact
 * sum, because the policy's error budget is too small for any code. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

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
    for (int i = 0; i < kCount && guard; ++i) {
      double sum = 0;
      for (int r = 0; r < size; ++r) sum += sinf((float)(i * (r + 1))) + 0.1F * (float)r;
      expect(fabs(sum - got[i]) < 1e-4, "the guard did not deliver the exact sum");
    }
    if (guard) break; /* from now on MPI reduces, which knows no GPUs here */
  }
  /* What no policy serves is not looked at. */
  int most = 0;
  expect(MPI_Allreduce(&rank, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS && most == size - 1,
         "maximum");
  MPI_Finalize();
  return 0;
}
