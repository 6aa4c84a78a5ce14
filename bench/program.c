#include "bench/program.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi_quant/base/launchers.h"

enum { kHeadStart_ns = 300000000, kQuiet_ns = 20000000 };

int mpiq_launched_by_own_mpi(const char* program) {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  const mpiq_launcher* wrong;
  int size = 1, length = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  wrong = mpiq_wrong_launcher(size);
  if (wrong == NULL) return 1;
  MPI_Get_library_version(version, &length);
  mpiq_say_wrong_launcher(program, wrong, version);
  if (mpiq_number_in(wrong->rank) != 0)
    nanosleep(&(struct timespec){0, kHeadStart_ns}, NULL); /* a launcher kills all when the first one ends */
  return 0;
}

int mpiq_read_number(const char* text, double least, double most, double* value) {
  char* end = NULL;
  const double number = strtod(text, &end);
  if (*text == '\0' || *end != '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') return 0;
  if (!(number >= least && number <= most)) return 0;
  *value = number;
  return 1;
}

/* In MPI_Finalize each rank asks its peers to confirm that all has arrived, then waits for all processes
 * without answering others any more. A rank hangs if it asks one that already waits so. That happens if
 * the other was confirmed by a call that came before this rank's MPI_Finalize. After the pause every rank
 * has left the barrier, so that no confirmation is given outside MPI_Finalize, and within it a rank asks
 * before it answers. */
int mpiq_finalize(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  nanosleep(&(struct timespec){0, kQuiet_ns}, NULL);
  return MPI_Finalize();
}
