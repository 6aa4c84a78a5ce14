/* What the library does to the processors and threads of a program: nothing, without codec threads. With
 * them, it starts threads that may run wherever the program may. affinity CPUS exact|lossy [THREADS];
 * CPUS: how many processors the process may use; THREADS: as MPIQ_THREADS. */
#define _GNU_SOURCE
#include "tests/preload/check.h"

#include <dirent.h>
#include <sched.h>

enum { kLong = 1 << 21 };

/* Counts the threads of this process, which must all have this mask. */
static int threads_with(const cpu_set_t* mask) {
  DIR* const tasks = opendir("/proc/self/task");
  struct dirent* entry;
  int count = 0;
  while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
    const int id = atoi(entry->d_name);
    cpu_set_t own;
    if (id == 0) continue;
    ++count;
    expect(sched_getaffinity(id, sizeof own, &own) == 0 && CPU_EQUAL(&own, mask),
           "a thread has another mask");
  }
  if (tasks != NULL) closedir(tasks);
  return count;
}

int main(int argc, char** argv) {
  cpu_set_t before, after;
  float* const longer = calloc(2 * (size_t)kLong, sizeof *longer);
  const int threads = argc > 3 ? atoi(argv[3]) : 1;
  int i, started;
  sched_getaffinity(0, sizeof before, &before);
  MPI_Init(&argc, &argv);
  (void)begin(argc, argv);
  expect(CPU_COUNT(&before) == atoi(argv[1]), "loading took processors away");
  if (CPU_COUNT(&before) == 1) printf("one processor\n");
  for (i = 0; i < kLong; ++i) longer[i] = x[i % kN];
  /* MPI may start threads of its own, in its first call. */
  beneath()(longer, longer + kLong, kLong, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  started = threads_with(&before);
  expect(MPI_Allreduce(longer, longer + kLong, kLong, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS,
         "an error");
  started = threads_with(&before) - started;
  expect(started == (lossy ? threads - 1 : 0), "not as many threads started as were asked for");
  sum(MPI_COMM_WORLD, "sum");
  sched_getaffinity(0, sizeof after, &after);
  expect(CPU_EQUAL(&before, &after), "a sum took processors away");
  free(longer);
  return end();
}
