/* MPI_Allreduce under the preload library and the functions of mpi_quant.h on the same communicators, which
 * want more of the library's own communicator than the other does. Argument: lossy. */
#include "tests/preload/check.h"

#include "mpi_quant.h"

/* One sum by MPIQ_Allreduce, and two that MPI makes: by MPIQ_Iallreduce, and by MPIQ_Ireduce and
 * MPIQ_Ibcast. */
static void own_sums(MPI_Comm comm) {
  MPIQ_Request request;
  MPI_Info info;
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, comm);
  expect(MPIQ_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL) == MPI_SUCCESS,
         "MPIQ_Allreduce");
  expect_sum(ours, theirs, comm, "MPIQ_Allreduce");
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "mpi");
  expect(MPIQ_Iallreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm, info, &request) == MPI_SUCCESS,
         "MPIQ_Iallreduce");
  expect(MPIQ_Wait(&request) == MPI_SUCCESS, "MPIQ_Wait");
  expect(memcmp(ours, theirs, sizeof ours) == 0, "MPIQ_Iallreduce is not exact");
  memset(ours, 0, sizeof ours);
  expect(MPIQ_Ireduce(x, ours, kN, MPI_FLOAT, MPI_SUM, 0, comm, info, &request) == MPI_SUCCESS,
         "MPIQ_Ireduce");
  expect(MPIQ_Wait(&request) == MPI_SUCCESS, "MPIQ_Wait");
  expect(MPIQ_Ibcast(ours, kN, MPI_FLOAT, 0, comm, info, &request) == MPI_SUCCESS, "MPIQ_Ibcast");
  expect(MPIQ_Wait(&request) == MPI_SUCCESS, "MPIQ_Wait");
  expect(memcmp(ours, theirs, sizeof ours) == 0, "MPIQ_Ireduce and MPIQ_Ibcast are not exact");
  MPI_Info_free(&info);
}

int main(int argc, char** argv) {
  MPI_Comm a, b;
  int code, i;
  MPI_Init(&argc, &argv);
  (void)begin(argc, argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &a);
  MPI_Comm_dup(MPI_COMM_WORLD, &b);
  sum(a, "the first of a");
  sum(b, "the first of b");
  for (i = 0; i < 3; ++i) {
    own_sums(a);
    sum(a, "a after functions of the library");
    sum(b, "b beside it");
  }
  own_sums(b);
  MPI_Comm_free(&a);
  /* Ranks that come with different functions: an error on all, and no hang. */
  MPI_Comm_dup(MPI_COMM_WORLD, &a);
  MPI_Comm_set_errhandler(a, MPI_ERRORS_RETURN);
  sum(a, "the first of another");
  for (i = 0; i < 2; ++i) {
    code = rank == 0 ? MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, a)
                     : MPIQ_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, a, MPI_INFO_NULL);
    expect(code != MPI_SUCCESS, "different functions, and no error");
  }
  sum(a, "after the error");
  MPI_Comm_free(&a);
  MPI_Comm_dup(MPI_COMM_WORLD, &a);
  MPI_Comm_set_errhandler(a, MPI_ERRORS_RETURN);
  code = rank == 0 ? MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, a)
                   : MPIQ_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, a, MPI_INFO_NULL);
  expect(code != MPI_SUCCESS, "different functions at the first use, and no error");
  MPI_Comm_free(&a);
  MPI_Comm_free(&b);
  return end();
}
