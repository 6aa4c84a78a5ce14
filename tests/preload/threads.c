/* Threads that sum at the same time, each over a communicator of its own; ranks begin with opposite ones.
 * threads MODE exact|lossy; MODE is not looked at. */
#include "tests/preload/check.h"

#include <pthread.h>
#include <unistd.h>

enum { kThreads = 4, kRounds = 20 };

struct work {
  MPI_Comm comm;
  useconds_t delay;
  float result[kN], exact[kN];
  int code;
};
static struct work works[kThreads];

static void* run(void* data) {
  struct work* const work = data;
  int i;
  usleep(work->delay);
  for (i = 0; i < kRounds && work->code == MPI_SUCCESS; ++i)
    work->code = MPI_Allreduce(x, work->result, kN, MPI_FLOAT, MPI_SUM, work->comm);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  int i, level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  (void)begin(argc, argv);
  if (level < MPI_THREAD_MULTIPLE) {
    if (rank == 0) printf("no MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return 0;
  }
  for (i = 0; i < kThreads; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &works[i].comm);
  /* The first sum over a communicator, with its agreement, is where one thread could wait for another. */
  for (i = 0; i < kThreads; ++i) works[i].delay = 20000u * (unsigned)(rank % 2 ? kThreads - 1 - i : i);
  for (i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, run, &works[i]);
  for (i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (i = 0; i < kThreads; ++i) {
    struct work* const work = &works[i];
    expect(work->code == MPI_SUCCESS, "an error");
    beneath()(x, work->exact, kN, MPI_FLOAT, MPI_SUM, work->comm);
    expect_sum(work->result, work->exact, work->comm, "in a thread");
    MPI_Comm_free(&work->comm);
  }
  return end();
}
