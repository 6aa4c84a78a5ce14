/* Whether a program of ours was started by the launcher of the MPI it is linked with. Another MPI's starts it
 * as often as it is told, and each process then believes that it is alone. */
#ifndef BENCH_LAUNCHED_H
#define BENCH_LAUNCHED_H

#ifdef __cplusplus
extern "C" {
#endif

/* After MPI_Init. 0 if MPI_COMM_WORLD is one rank although the launcher started more, as its environment
 * says; its first process says so on stderr, after the name of the program. */
int mpiq_launched_by_own_mpi(const char* program);

#ifdef __cplusplus
}
#endif

#endif
