/* mpiq-changing: what each method gets while the network changes its rate in the middle. Each method has a
 * communicator of its own, on which nothing is known. It makes N calls, then the network is changed by
 * somebody else, and it makes N more. Prints CSV: method, half (0 or 1), number of the call, seconds.
 *
 * Before each half rank 0 makes the file FLAG, with the number of the half in it, and waits until it is gone:
 * whoever changes the network then removes it. scripts/lab_change does.
 * Elements are floats, normally distributed, and others on each rank. Seconds are of the slowest rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/program.h"
#include "bench/research/automatic/vector.h"
#include "mpi_quant.h"

static void ask_for_half(const char* flag, int half) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    FILE* file = fopen(flag, "w");
    if (file == NULL || fprintf(file, "%d\n", half) < 0 || fclose(file) != 0) {
      fprintf(stderr, "mpiq-changing: cannot write %s\n", flag);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    while (access(flag, F_OK) == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void half_of_calls(const char* method, int half, int calls, MPI_Comm comm, MPI_Info info,
                          const float* x, float* y, MPI_Count n) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  for (int i = 0; i < calls; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    const int code = MPIQ_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, comm, info);
    double mine = MPI_Wtime() - begin, slowest = 0;
    if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s,%d,%d,%.6g\n", method, half, i, slowest);
  }
}

static const char kUsage[] =
    "usage: mpiq-changing FLAG BYTES N METHOD..., started with mpiexec; BYTES: 4 or more; N: 1 to 1000000";

int main(int argc, char** argv) {
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "--version") == 0)) {
    puts(strcmp(argv[1], "--help") == 0 ? kUsage : "mpiq-changing " MPIQ_VERSION);
    return 0;
  }
  double bytes = 0, calls = 0;
  if (argc < 5 || !mpiq_read_number(argv[2], 4, 1e15, &bytes) || !mpiq_read_number(argv[3], 1, 1e6, &calls)) {
    fprintf(stderr, "%s\n", kUsage);
    return 2;
  }
  MPI_Init(&argc, &argv);
  if (!mpiq_launched_by_own_mpi("mpiq-changing")) {
    MPI_Finalize();
    return 2;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const MPI_Count n = (MPI_Count)(bytes / sizeof(float));
  float* x = normal_vector((size_t)n, rank);
  float* y = malloc((size_t)n * sizeof(float));
  if (x == NULL || y == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  if (rank == 0) printf("method,half,call,seconds\n");
  for (int m = 4; m < argc; ++m) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpiq_method", argv[m]);
    for (int half = 0; half < 2; ++half) {
      ask_for_half(argv[1], half);
      half_of_calls(argv[m], half, (int)calls, comm, info, x, y, n);
    }
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
  }
  free(x);
  free(y);
  return mpiq_finalize();
}
