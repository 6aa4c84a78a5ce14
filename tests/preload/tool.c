/* A PMPI tool as they are: counts MPI_Allreduce and calls PMPI_Allreduce. Prints "tool saw N" at the end. */
#include <mpi.h>
#include <stdio.h>

static int calls = 0;

int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
  ++calls;
  return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

#if MPI_VERSION >= 4
int MPI_Allreduce_c(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                    MPI_Comm comm) {
  ++calls;
  return PMPI_Allreduce_c(sendbuf, recvbuf, count, datatype, op, comm);
}
#endif

__attribute__((destructor)) static void print_calls(void) {
  if (calls > 0) printf("tool saw %d\n", calls);
}
