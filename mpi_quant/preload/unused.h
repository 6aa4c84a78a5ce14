/* Programs under mpiq-run that make no MPI call. */
#ifndef MPI_QUANT_PRELOAD_UNUSED_H
#define MPI_QUANT_PRELOAD_UNUSED_H

/* Notes for mpiq-run's program that this process, which it may have started, uses MPI. */
void mpiq_note_mpi(void);
/* At the end of a process that made no MPI call: says so, once, if it is what mpiq-run was asked to run
 * and no process that it started uses MPI. Silence would look like success. */
void mpiq_say_unused(void);

#endif
