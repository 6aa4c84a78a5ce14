/* Saves residuals, forgets them and restores them; the next sum must be the same as in a run without
 * interruption.
 * restart FILE              with libmpi_quant
 * restart FILE intercepted  with libmpi_quant_pmpi, linked or preloaded: MPI_Allreduce and all MPIQ_
 * functions, also of libmpi_quant_hdf5, must work on one and the same state */
#include <mpi_quant.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kN = 50000 };
static float x[kN], expected[kN], y[kN], residual[kN];
static int failures = 0;

static void expect(int ok, const char* what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "restart: %s\n", what);
}

static void reduce(float* result) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "onebit");
  MPI_Info_set(info, "mpiq_key", "layer 1");
  MPIQ_Allreduce(x, result, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info);
  MPI_Info_free(&info);
}

int main(int argc, char** argv) {
  MPIQ_Residual all[2] = {MPIQ_RESIDUAL_INIT, MPIQ_RESIDUAL_INIT};
  MPIQ_Stats before = MPIQ_STATS_INIT, after = MPIQ_STATS_INIT;
  int i, rank, n = 0, total = 0;
  MPI_Init(&argc, &argv);
  if (argc < 2) return 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  srand((unsigned)rank + 1);
  for (i = 0; i < kN; ++i) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;

  reduce(y);
  MPIQ_Comm_get_stats(MPI_COMM_WORLD, &before);
  for (i = 0; i < 6; ++i) /* enough for a residual under the address, if the policy has it */
    MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPIQ_Comm_get_stats(MPI_COMM_WORLD, &after);
  expect(after.calls - before.calls == (argc > 2 ? 6u : 0u),
         "MPI_Allreduce and MPIQ_ functions have states of their own");

  MPIQ_Residual_save(MPI_COMM_WORLD, argv[1]);
  MPIQ_Residual_get(MPI_COMM_WORLD, "layer 1", 0, kN, residual);
  reduce(expected);
  MPIQ_Residual_reset(MPI_COMM_WORLD, NULL);
  MPIQ_Residual_list(MPI_COMM_WORLD, 0, NULL, &n);
  expect(n == 0, "reset left something");
  MPIQ_Residual_restore(MPI_COMM_WORLD, argv[1]);
  MPIQ_Residual_list(MPI_COMM_WORLD, 2, all, &n);
  expect(n == 1 && strcmp(all[0].key, "layer 1") == 0 && all[0].count == kN, "not what was saved");
  MPIQ_Residual_get(MPI_COMM_WORLD, "layer 1", 0, kN, y);
  expect(memcmp(y, residual, sizeof y) == 0, "the residual is another");
  reduce(y);
  expect(memcmp(y, expected, sizeof y) == 0, "the next sum is another");

  MPI_Reduce(&failures, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return total != 0;
}
