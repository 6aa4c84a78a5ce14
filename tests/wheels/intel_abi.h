/* For programs of the standard ABI that run on Intel MPI 2021.18 and are compiled with the header of MPICH
 * 5.0.2: there MPI_ERRORS_RETURN has the number that Intel MPI has for MPI_ERRORS_ABORT, and the other way
 * round. */
#include <mpi.h>
#undef MPI_ERRORS_RETURN
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x142)
