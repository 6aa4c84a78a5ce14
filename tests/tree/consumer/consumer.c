/* Sums one vector with one bit an element and checks the exact case: all elements equal. */
#include <mpi_quant.h>
#include <stdio.h>

/* The header declares experimental functions only to programs that define MPIQ_EXPERIMENTAL. */
static int MPIQ_Neighbor_mix(void) { return 0; }

int main(int argc, char** argv) {
  static float x[50000];
  MPI_Info info;
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  MPIQ_Residual residual = MPIQ_RESIDUAL_INIT;
  int i, size, n, bad = MPIQ_Neighbor_mix(), major, minor, patch;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPIQ_Get_version(&major, &minor, &patch);
  for (i = 0; i < 50000; ++i) x[i] = 0.5f;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "onebit");
  MPIQ_Allreduce(MPI_IN_PLACE, x, 50000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info);
  MPI_Info_free(&info);
  for (i = 0; i < 50000; ++i) bad += x[i] != 0.5f * (float)size;
  MPI_Pcontrol(MPIQ_PCONTROL, "key=x");
  bad += MPIQ_Comm_get_stats(MPI_COMM_WORLD, &stats) != MPI_SUCCESS || stats.exact_mode != MPIQ_EXACT_NONE;
  bad += MPIQ_Residual_list(MPI_COMM_WORLD, 1, &residual, &n) != MPI_SUCCESS || n != 0;
  MPI_Finalize();
  if (bad) printf("%d wrong elements\n", bad);
  return bad != 0 || major != MPIQ_VERSION_MAJOR || minor != MPIQ_VERSION_MINOR ||
         patch != MPIQ_VERSION_PATCH;
}
