/* For tests with more ranks than cores, preloaded: ranks that wait give their core to others.
 *
 * A rank of MPICH over UCX waits in a loop around ucp_worker_progress(). Where ranks share a core, each
 * message then takes until the kernel stops the rank that waits: milliseconds. Tests at 5 ranks on 2 cores
 * took 28 s and take 1.3 s. Here a rank that found nothing for a while sleeps for some microseconds. It does
 * not yield: beside a program that computes it would get its core back after milliseconds, where a rank that
 * wakes up gets it at once. Never for measurements. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

typedef unsigned progress_function(void* worker);

unsigned ucp_worker_progress(void* worker);
unsigned ucp_worker_progress(void* worker) {
  enum { kPatience = 20, kNap_ns = 20000 };
  static progress_function* real; /* every thread finds the same */
  static __thread int idle;
  if (real == 0) *(void**)&real = dlsym(RTLD_NEXT, "ucp_worker_progress");
  if (real == 0) { /* a plugin has brought MPI in no global scope */
    void* const ucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (ucp == 0) abort(); /* it has another name: this file has to learn it */
    *(void**)&real = dlsym(ucp, "ucp_worker_progress");
  }
  const unsigned events = real(worker);
  if (events > 0) idle = 0;
  if (events == 0 && ++idle >= kPatience) {
    const struct timespec nap = {0, kNap_ns};
    static __thread int is_exact;
    if (!is_exact) is_exact = prctl(PR_SET_TIMERSLACK, 1UL) == 0; /* or 50 us are added */
    idle = 0;
    (void)nanosleep(&nap, NULL);
  }
  return events;
}
