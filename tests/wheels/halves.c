/* Half types that this MPI sums: without a method MPIQ_Allreduce has MPI's bits and compresses nothing. MPICH
 * 5 goes on with another algorithm after some calls, so MPI's call before or after has the same bits. A mean
 * is there where the sum is too large for the type. Prints how many types it has tried. */
#include <mpi.h>
#include <mpi_quant.h>
#include <stdio.h>
#include <string.h>
#ifndef MPIX_C_FLOAT16
#  define MPIX_C_FLOAT16 MPI_DATATYPE_NULL
#endif
#ifndef MPIX_BFLOAT16
#  define MPIX_BFLOAT16 MPI_DATATYPE_NULL
#endif

enum { N = 1000 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Datatype types[2] = {MPIX_C_FLOAT16, MPIX_BFLOAT16};
  unsigned short x[N], before[N], got[N], after[N];
  int rank, tried = 0, bad = 0;
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int t = 0; t < 2; ++t) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    if (types[t] != MPI_DATATYPE_NULL) MPI_Type_get_name(types[t], name, &length);
    if (length == 0) continue; /* this MPI was built without it */
    for (int i = 0; i < N; ++i) x[i] = (unsigned short)(rank == 0 ? 0x6800 : 0x3c00 + i % 1024);
    MPI_Allreduce(x, before, N, types[t], MPI_SUM, MPI_COMM_WORLD);
    MPIQ_Allreduce(x, got, N, types[t], MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL);
    MPI_Allreduce(x, after, N, types[t], MPI_SUM, MPI_COMM_WORLD);
    bad += memcmp(got, before, sizeof got) != 0 && memcmp(got, after, sizeof got) != 0;
    ++tried;
  }
  MPIQ_Comm_get_stats(MPI_COMM_WORLD, &stats);
  bad += stats.compressed_calls != 0;
  if (types[0] != MPI_DATATYPE_NULL && tried > 0) {
    MPI_Info mean;
    MPI_Info_create(&mean);
    MPI_Info_set(mean, "mpiq_op", "avg");
    for (int i = 0; i < N; ++i) x[i] = 0x78e2; /* 40000; the greatest half number is 65504 */
    MPIQ_Allreduce(x, got, N, types[0], MPI_SUM, MPI_COMM_WORLD, mean);
    bad += memcmp(got, x, sizeof got) != 0;
    MPI_Info_free(&mean);
  }
  MPI_Finalize();
  if (rank == 0) printf("%d types\n", tried);
  return bad != 0;
}
