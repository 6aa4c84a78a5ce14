/* What launchers tell the processes that they start, and how a process finds out that its MPI library is
 * another launcher's: each process is then the only rank of its MPI_COMM_WORLD. In C, for the programs of
 * the benchmark and for the preload library. */
#ifndef MPI_QUANT_BASE_LAUNCHERS_H
#define MPI_QUANT_BASE_LAUNCHERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct mpiq_launcher {
  const char *name, *size, *rank; /* size, rank: environment variables */
} mpiq_launcher;

/* A launcher that runs inside another's (mpiexec in a job step) leaves the variables of both. */
enum { MPIQ_LAUNCHERS = 4 };
static const mpiq_launcher mpiq_launchers[MPIQ_LAUNCHERS] = {
    {"MPICH's mpiexec, or one of its relatives,", "PMI_SIZE", "PMI_RANK"},
    {"Open MPI's mpiexec", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"MVAPICH's mpiexec", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
    {"Slurm's srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};

static inline int mpiq_number_in(const char* variable) {
  const char* const text = getenv(variable);
  return text != NULL ? atoi(text) : 0;
}

/* The launcher that started several processes, where MPI_COMM_WORLD has this many ranks: 1. Null if
 * nothing is wrong. */
static inline const mpiq_launcher* mpiq_wrong_launcher(int ranks) {
  const mpiq_launcher* found = NULL;
  int i;
  if (ranks > 1) return NULL;
  for (i = MPIQ_LAUNCHERS - 1; i >= 0; --i) {
    const int started = mpiq_number_in(mpiq_launchers[i].size);
    if (started == 1) return NULL;
    if (started > 1) found = &mpiq_launchers[i];
  }
  return found;
}

/* Says so, in the first process of the launcher. version: MPI_Get_library_version's text, which is
 * changed. */
static inline void mpiq_say_wrong_launcher(const char* program, const mpiq_launcher* launcher,
                                           char* version) {
  char* tab;
  if (mpiq_number_in(launcher->rank) != 0) return;
  version[strcspn(version, "\n,")] = '\0';
  if ((tab = strchr(version, '\t')) != NULL) *tab = ' ';
  fprintf(stderr,
          "%s: %s started %d processes (%s), but MPI_COMM_WORLD has 1 rank: this program is linked with %s; "
          "start it with the launcher of that MPI (mpiexec.mpich or mpiexec.openmpi on Debian)\n",
          program, launcher->name, mpiq_number_in(launcher->size), launcher->size, version);
}

#endif
