/* Sums one vector with one bit an element and checks the exact case: all elements equal. */
#include <mpi_quant.h>
#include <stdio.h>

int main(int argc, char** argv) {
  static float x[50000];
  MPI_Info info;
  int i, size, bad = 0, major, minor, patch;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPIQ_Get_version(&major, &minor, &patch);
  for (i = 0; i < 50000; ++i) x[i] = 0.5f;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "onebit");
  MPIQ_Allreduce(MPI_IN_PLACE, x, 50000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info);
  MPI_Info_free(&info);
  for (i = 0; i < 50000; ++i) bad += x[i] != 0.5f * (float)size;
  MPI_Finalize();
  if (bad) printf("%d wrong elements\n", bad);
  return bad != 0 || major != MPIQ_VERSION_MAJOR || minor != MPIQ_VERSION_MINOR ||
         patch != MPIQ_VERSION_PATCH;
}
