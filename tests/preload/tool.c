/* A PMPI tool as they are: counts MPI_Allreduce and calls PMPI_Allreduce. Prints "tool saw N" at the end. */
#include <mpi.h>
#include <stdarg.h>
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

/* Says what it hears at level 2. */
int MPI_Pcontrol(const int level, ...) {
  va_list rest;
  va_start(rest, level);
  if (level == 2) {
    const char* const text = va_arg(rest, const char*);
    const int number = va_arg(rest, int);
    const double first = va_arg(rest, double), second = va_arg(rest, double);
    int i, sum = 0;
    for (i = 0; i < 5; ++i) sum = 10 * sum + va_arg(rest, int);
    printf("tool heard %s %d %g %g %d\n", text, number, first, second, sum);
  }
  va_end(rest);
  return PMPI_Pcontrol(level);
}

__attribute__((destructor)) static void print_calls(void) {
  if (calls > 0) printf("tool saw %d\n", calls);
}
