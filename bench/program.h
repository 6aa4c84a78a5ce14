/* How every program of ours begins and ends between MPI_Init and MPI_Finalize.
 * Begin: was it started by the launcher of the MPI it is linked with? Another MPI's starts it as often as it
 * is told, and each process then believes that it is alone.
 * End: MPI_Finalize of MPICH before 4.2 over UCX and TCP can wait for ever (openucx/ucx issue 8738,
 * pmodels/mpich pull request 6596). */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#ifdef __cplusplus
extern "C" {
#endif

/* After MPI_Init. 0 if MPI_COMM_WORLD is one rank although the launcher started more, as its environment
 * says; its first process says so on stderr, after the name of the program. */
int mpiq_launched_by_own_mpi(const char* program);

/* Reads a number from `least` to `most`, by the grammar of mpi_quant/run/option_parser.hpp. 0: the text is
 * none, and *value stays as it was. */
int mpiq_read_number(const char* text, double least, double most, double* value);

/* In place of MPI_Finalize where messages were sent. Collective over MPI_COMM_WORLD. Takes 20 ms more. */
int mpiq_finalize(void);

#ifdef __cplusplus
}
#endif

#endif
