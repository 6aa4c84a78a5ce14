#include "bench/program.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What launchers tell their processes. One that runs inside another's (mpiexec in a job step) leaves both. */
static const struct {
  const char *launcher, *size, *rank;
} kLaunchers[] = {{"MPICH's mpiexec, or one of its relatives,", "PMI_SIZE", "PMI_RANK"},
                  {"Open MPI's mpiexec", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                  {"MVAPICH's mpiexec", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                  {"Slurm's srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
enum { kHeadStart_ns = 300000000, kQuiet_ns = 20000000 };
enum { kCount = sizeof kLaunchers / sizeof kLaunchers[0] };

static int number(const char* variable) {
  const char* const text = getenv(variable);
  return text != NULL ? atoi(text) : 0;
}

static void complain(const char* program, int launcher) {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  char* tab;
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n,")] = '\0';
  if ((tab = strchr(version, '\t')) != NULL) *tab = ' ';
  fprintf(stderr,
          "%s: %s started %d processes (%s), but MPI_COMM_WORLD has 1 rank: this program is linked with %s; "
          "start it with the launcher of that MPI (mpiexec.mpich or mpiexec.openmpi on Debian)\n",
          program, kLaunchers[launcher].launcher, number(kLaunchers[launcher].size),
          kLaunchers[launcher].size, version);
}

int mpiq_launched_by_own_mpi(const char* program) {
  int size = 1, i, found = kCount;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1) return 1;
  for (i = kCount - 1; i >= 0; --i) {
    const int started = number(kLaunchers[i].size);
    if (started == 1) return 1;
    if (started > 1) found = i;
  }
  if (found == kCount) return 1;
  if (number(kLaunchers[found].rank) == 0)
    complain(program, found);
  else
    nanosleep(&(struct timespec){0, kHeadStart_ns}, NULL); /* a launcher kills all when the first one ends */
  return 0;
}

/* In MPI_Finalize each rank asks its peers to confirm that all has arrived, then waits for all processes without
 * answering others any more. A rank hangs if it asks one that already waits so. That happens if the other was
 * confirmed by a call that came before this rank's MPI_Finalize. After the pause every rank has left the barrier,
 * so that no confirmation is given outside MPI_Finalize, and within it a rank asks before it answers. */
int mpiq_finalize(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  nanosleep(&(struct timespec){0, kQuiet_ns}, NULL);
  return MPI_Finalize();
}
