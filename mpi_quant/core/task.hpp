// Calls that are under way in this process, whatever kind they are. There is no hidden thread: MPIQ_Start,
// MPIQ_Test, MPIQ_Wait and every blocking call of this library advance all of them, on all communicators, so
// that ranks which wait for different calls still help each other on.
#pragma once

#include <cstddef>

namespace mq {

class CommState;

// A started call that is advanced until it is done: an Operation, or a sparse reduction. The call outlives
// it.
class Task {
 public:
  // T has state(), advance(), done() and abandon(), which are called with the state's mutex held.
  template <class T>
  explicit Task(T& call)
      : object_(&call),
        state_(&call.state()),
        advance_([](void* o) noexcept { return static_cast<T*>(o)->advance(); }),
        done_([](const void* o) noexcept { return static_cast<const T*>(o)->done(); }),
        abandon_([](void* o) noexcept { static_cast<T*>(o)->abandon(); }) {}
  CommState& state() const { return *state_; }
  bool advance() const { return advance_(object_); }  // does what can be done without waiting
  bool done() const { return done_(object_); }
  void abandon() const { abandon_(object_); }  // nobody will complete it
  const void* call() const { return object_; }

 private:
  void* object_;
  CommState* state_;
  bool (*advance_)(void*) noexcept;
  bool (*done_)(const void*) noexcept;
  void (*abandon_)(void*) noexcept;
};

// Room in the list of tasks; one for each that may be under way at once. Throws std::bad_alloc.
class Listing {
 public:
  Listing();
  ~Listing();
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;
};
void list(Task task);  // there is room
void unlist(const void* call);

// Advances what other calls of this process left under way; true if anything moved. Holds no lock while
// waiting.
bool advance_requests() noexcept;

// When MPI is finalized: gives up the calls that nobody has completed, and goes on with them until they are
// over or nothing has moved for patience_s, for other ranks may wait for them. Gives how many there are.
// Communicators of those that are not over are kept.
std::size_t abandon_requests(double patience_s) noexcept;

// Runs a task to its end, on the way also all others. Seconds without anything to do are added to the
// communicator's wait_s.
void complete(const Task& task) noexcept;

}  // namespace mq
