#define _GNU_SOURCE
#include "mpi_quant/preload/unused.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi_quant/base/launchers.h"

/* mpiq-run gives its process, which becomes the program, and a file in memory that the program holds open.
 * The program, or another one with this number of process, on another node for example, may have a file of
 * its own behind that number. So the file must have the name that mpiq-run has given it, which no other
 * has. */
struct mark {
  long process;
  int descriptor;
  char name[64];
};

static int read_mark(struct mark* mark) {
  const char* const text = getenv("MPIQ_RUN");
  return text != NULL && sscanf(text, "%ld:%d:%63s", &mark->process, &mark->descriptor, mark->name) == 3;
}

static int is_marked(const char* link, const struct mark* mark) {
  char wanted[96], found[96];
  const ssize_t length = readlink(link, found, sizeof found - 1);
  if (length < 0) return 0;
  found[length] = '\0';
  snprintf(wanted, sizeof wanted, "/memfd:%s (deleted)", mark->name);
  return strcmp(found, wanted) == 0;
}

void mpiq_note_mpi(void) {
  char path[64];
  int descriptor;
  struct mark mark;
  if (!read_mark(&mark) || mark.process == (long)getpid()) return;
  snprintf(path, sizeof path, "/proc/%ld/fd/%d", mark.process, mark.descriptor);
  if (!is_marked(path, &mark)) return;
  descriptor = open(path, O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  /* The other process may have closed the file meanwhile and opened another one. */
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  if (is_marked(path, &mark) && ftruncate(descriptor, 1) != 0) {
    /* the note is lost: the program says too much */
  }
  close(descriptor);
}

void mpiq_say_unused(void) {
  char path[64];
  int i;
  struct stat status;
  struct mark mark;
  if (!read_mark(&mark) || mark.process != (long)getpid()) return;
  snprintf(path, sizeof path, "/proc/self/fd/%d", mark.descriptor);
  if (is_marked(path, &mark) && fstat(mark.descriptor, &status) == 0 && status.st_size > 0) return;
  for (i = 0; i < MPIQ_LAUNCHERS; ++i)
    if (mpiq_number_in(mpiq_launchers[i].rank) != 0) return;
  if (mpiq_number_in("RANK") != 0) return; /* of torchrun */
  fprintf(
      stderr,
      "mpi_quant: this program made no MPI call: nothing was compressed, and there is no report. PyTorch's "
      "backends gloo and nccl do not use MPI\n");
}
