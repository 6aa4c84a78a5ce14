// Threads that help the calling thread with a job of several parts.
//
// They are the library's own, and the first job starts them. OpenMP is not used, because its runtime acts on
// the whole program as soon as it is loaded: with OMP_PROC_BIND it binds the program's first thread to one
// processor.
#pragma once

namespace mq {

// Runs part(data, 0) to part(data, n - 1), each once, and returns when all are over. The calling thread takes
// parts too, and takes all of them if the system gives no thread. Parts must not throw. Several threads may
// call it at once, and a child process after fork().
void run_together(int n, void (*part)(void* data, int i), void* data);

template <class Part>
void run_together(int n, const Part& part) {
  run_together(
      n, [](void* data, int i) { (*static_cast<const Part*>(data))(i); }, const_cast<Part*>(&part));
}

}  // namespace mq
