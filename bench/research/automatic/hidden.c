/* mpiq-hidden: does a method leave a non-blocking call alone that its program hides behind its own work? Each
 * method has a communicator of its own, on which nothing is known. It makes N blocking calls, from which
 * `auto` learns, and then N calls of MPIQ_Iallreduce in each of three phases: waited, hidden, waited. A
 * waited call is completed at once. A hidden one is followed by COMPUTE_US microseconds of work, with an
 * MPIQ_Test after each TEST_US, and is then completed.
 *
 * Prints CSV: method, phase, number of the call, seconds in the library, seconds from start to end, 1 if the
 * call was compressed. Seconds are measured on rank 0. The vectors are floats, normally distributed. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/program.h"
#include "bench/research/automatic/vector.h"
#include "mpi_quant.h"

enum { kBlocking, kWaited, kHidden, kWaitedAgain, kPhases };
static const char* const kNames[kPhases] = {"blocking", "waited", "hidden", "waited again"};

struct Calls {
  const float* x;
  float* y;
  MPI_Count n;
  MPI_Comm comm;
  MPI_Info info;
  double compute_s, test_s;
};

static void must(int code) {
  if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned long long compressed_calls(MPI_Comm comm) {
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  must(MPIQ_Comm_get_stats(comm, &stats));
  return stats.compressed_calls;
}

static void compute(double seconds) {
  const double begin = MPI_Wtime();
  while (MPI_Wtime() - begin < seconds) continue;
}

/* Starts a sum, works, completes it. Returns the seconds in the library. */
static double nonblocking_call(const struct Calls* c, int hidden) {
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  double begin = MPI_Wtime(), inside = 0;
  must(MPIQ_Iallreduce(c->x, c->y, c->n, MPI_FLOAT, MPI_SUM, c->comm, c->info, &request));
  inside += MPI_Wtime() - begin;
  for (double done = 0; hidden && done < c->compute_s; done += c->test_s) {
    int over = 0;
    compute(c->test_s);
    begin = MPI_Wtime();
    must(MPIQ_Test(&request, &over));
    inside += MPI_Wtime() - begin;
  }
  begin = MPI_Wtime();
  must(MPIQ_Wait(&request));
  return inside + MPI_Wtime() - begin;
}

static void one_phase(const struct Calls* c, const char* method, int phase, int calls) {
  int rank = 0;
  MPI_Comm_rank(c->comm, &rank);
  for (int i = 0; i < calls; ++i) {
    const unsigned long long before = compressed_calls(c->comm);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    double inside = 0;
    if (phase == kBlocking)
      must(MPIQ_Allreduce(c->x, c->y, c->n, MPI_FLOAT, MPI_SUM, c->comm, c->info));
    else
      inside = nonblocking_call(c, phase == kHidden);
    const double all = MPI_Wtime() - begin;
    if (rank == 0)
      printf("%s,%s,%d,%.6g,%.6g,%d\n", method, kNames[phase], i, phase == kBlocking ? all : inside, all,
             compressed_calls(c->comm) != before);
  }
}

static const char kUsage[] =
    "usage: mpiq-hidden BYTES COMPUTE_US TEST_US N METHOD..., started with mpiexec; BYTES: 4 or more;\n"
    "       COMPUTE_US: 1 or more; TEST_US: 1 to COMPUTE_US; N: 1 to 1000000";

int main(int argc, char** argv) {
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "--version") == 0)) {
    puts(strcmp(argv[1], "--help") == 0 ? kUsage : "mpiq-hidden " MPIQ_VERSION);
    return 0;
  }
  double bytes = 0, compute_us = 0, test_us = 0, calls = 0;
  if (argc < 6 || !mpiq_read_number(argv[1], 4, 1e15, &bytes) ||
      !mpiq_read_number(argv[2], 1, 1e9, &compute_us) ||
      !mpiq_read_number(argv[3], 1, compute_us, &test_us) || !mpiq_read_number(argv[4], 1, 1e6, &calls)) {
    fprintf(stderr, "%s\n", kUsage);
    return 2;
  }
  MPI_Init(&argc, &argv);
  if (!mpiq_launched_by_own_mpi("mpiq-hidden")) {
    MPI_Finalize();
    return 2;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  struct Calls c = {
      .n = (MPI_Count)(bytes / sizeof(float)), .compute_s = compute_us * 1e-6, .test_s = test_us * 1e-6};
  float* x = normal_vector((size_t)c.n, rank);
  c.x = x;
  c.y = malloc((size_t)c.n * sizeof(float));
  if (x == NULL || c.y == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  if (rank == 0) printf("method,phase,call,library_s,seconds,compressed\n");
  for (int m = 5; m < argc; ++m) {
    MPI_Comm_dup(MPI_COMM_WORLD, &c.comm);
    MPI_Info_create(&c.info);
    MPI_Info_set(c.info, "mpiq_method", argv[m]);
    for (int phase = 0; phase < kPhases; ++phase) one_phase(&c, argv[m], phase, (int)calls);
    MPI_Info_free(&c.info);
    MPI_Comm_free(&c.comm);
  }
  free(x);
  free(c.y);
  return mpiq_finalize();
}
