/* Recorded vectors, pushed through one buffer by an unmodified program: what error feedback of the preload
 * library makes of them. argv: a file of cases, then policies "METHOD OPTIONS". A case is a line
 *
 *   NAME COUNT STEPS TENSORS PATH
 *
 * where PATH.RANK holds STEPS times an index below TENSORS (int32) and COUNT floats, the step's vector of
 * that tensor. For each case and policy the steps are summed on a communicator of its own; rank 0 prints a
 * line of comma-separated values: case, policy, and the relative L2 error of the sum of each tensor's
 * results, the mean square over the tensors. A policy with "feedback=key" states the tensor by MPI_Pcontrol.
 */
#include "tests/preload/beneath.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { kCommand = 0x4D51 };
static int rank, size;

struct replay {
  char name[80], path[400];
  int count, steps, tensors;
  char* records; /* of this rank: index and vector, again and again */
};

static void fail(const char* what, const char* which) {
  fprintf(stderr, "replay: %s: %s\n", what, which);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static void* zeroed(size_t bytes) {
  void* memory = calloc(bytes, 1);
  if (memory == NULL) fail("no memory", "");
  return memory;
}

static size_t record_bytes(const struct replay* r) { return sizeof(int) + (size_t)r->count * sizeof(float); }

static void read_records(struct replay* r) {
  char path[450];
  FILE* file;
  snprintf(path, sizeof path, "%s.%d", r->path, rank);
  file = fopen(path, "rb");
  if (file == NULL) fail("cannot open", path);
  r->records = zeroed((size_t)r->steps * record_bytes(r));
  if (fread(r->records, record_bytes(r), (size_t)r->steps, file) != (size_t)r->steps) fail("too short", path);
  fclose(file);
}

/* A communicator of the world's ranks with this policy. */
static MPI_Comm with_policy(const char* policy) {
  char rules[200];
  MPI_Comm comm;
  MPI_Info info;
  snprintf(rules, sizeof rules, "4K- small: %s; 64K-: %s", policy, policy);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_policy", rules);
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  return comm;
}

static double replay(const struct replay* r, const char* policy) {
  const size_t n = (size_t)r->count, all = n * (size_t)r->tensors;
  double *delivered = zeroed(all * sizeof(double)), *wanted = zeroed(all * sizeof(double)), mean = 0;
  float *x = zeroed(n * sizeof(float)), *exact = zeroed(n * sizeof(float));
  const int states_key = strstr(policy, "feedback=key") != NULL;
  MPI_Comm comm = with_policy(policy);
  int step, t;
  size_t i;
  for (step = 0; step < r->steps; ++step) {
    const char* const record = r->records + (size_t)step * record_bytes(r);
    double *to, *of;
    memcpy(&t, record, sizeof t);
    if (t < 0 || t >= r->tensors) fail("a tensor that is not there", r->name);
    to = delivered + (size_t)t * n;
    of = wanted + (size_t)t * n;
    memcpy(x, record + sizeof t, n * sizeof(float));
    beneath()(x, exact, r->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (states_key) MPI_Pcontrol((kCommand << 16) + t);
    MPI_Allreduce(MPI_IN_PLACE, x, r->count, MPI_FLOAT, MPI_SUM, comm);
    for (i = 0; i < n; ++i) {
      to[i] += x[i];
      of[i] += exact[i];
    }
  }
  for (t = 0; t < r->tensors; ++t) {
    double error = 0, energy = 0;
    for (i = (size_t)t * n; i < (size_t)(t + 1) * n; ++i) {
      error += (delivered[i] - wanted[i]) * (delivered[i] - wanted[i]);
      energy += wanted[i] * wanted[i];
    }
    mean += error / (energy > 0 ? energy : 1) / r->tensors;
  }
  MPI_Comm_free(&comm);
  free(delivered);
  free(wanted);
  free(x);
  free(exact);
  return sqrt(mean);
}

int main(int argc, char** argv) {
  struct replay r;
  FILE* cases;
  int p;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3) fail("usage", "replay CASES POLICY...");
  cases = fopen(argv[1], "r");
  if (cases == NULL) fail("cannot open", argv[1]);
  if (rank == 0) printf("case,policy,error\n");
  while (fscanf(cases, "%79s %d %d %d %399s", r.name, &r.count, &r.steps, &r.tensors, r.path) == 5) {
    read_records(&r);
    for (p = 2; p < argc; ++p) {
      const double error = replay(&r, argv[p]);
      if (rank == 0) printf("%s,%s,%.6g\n", r.name, argv[p], error);
    }
    free(r.records);
  }
  fclose(cases);
  MPI_Finalize();
  return 0;
}
