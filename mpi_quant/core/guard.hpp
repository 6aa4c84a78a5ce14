// Guard mode: now and then a sum that is compressed is also made exactly, and the two are compared. If the
// error is over the budget of the rule, the program gets the exact sum. The rule is then no longer used on
// this communicator, on all ranks from the same call on. With guard=N:
//
//   A call without a residual is judged alone: the first that a rule compresses, and every N-th after it. If
//   its method promises how far an element of the result may be from the exact sum, the guard checks that
//   too.
//
//   Calls with a residual are judged together, N calls of one residual, because what one of them leaves out
//   comes with the next. They are a window. Each rank adds up its inputs and the results. At the last call
//   one exact reduction shows what the results should have added up to. A rule has one window at a time. When
//   it has been judged, the next call opens one for its own residual.
//
// A window belongs to one rank until it is judged. When the ranks agree on its last call, they compare which
// calls they have added up. If these differ, that call is exact, and the window is dropped.
//
// The exact sum includes what waited in the residual of the call. What waits in other residuals of the rule
// comes with the next exact sum of each.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/core/answer.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/memory/residuals.hpp"

namespace mq {

struct GuardResult {
  // Relative L2 error. Inf if a value that is not finite came out finite, or the other way round. < 0: there
  // is nothing to judge, because the exact sum has values that are not finite (a method may be unable to send
  // other values beside them), or because a rank has no result.
  double error = 0;
  bool given_up = false;  // over the budget, or further from the exact sum than the method promises
  bool replaced = false;  // the exact sum is delivered: the rule is given up, or a rank has no result
  Status delivered;       // ok if recvbuf has the exact sum on all ranks, else not ok on all ranks
};

// Calls with one residual that are judged together. Elements are f32 or f64.
class GuardWindow {
 public:
  // Null if there is no memory.
  static std::unique_ptr<GuardWindow> open(std::string_view key, std::size_t count, kernels::Element element);
  bool is_of(std::string_view key, std::size_t count, kernels::Element element) const {
    return key == key_.view() && count == count_ && element == element_;
  }
  // add_input: before a call, its input and its number among the calls of the rule. add_result: after the
  // call; it has n elements, fewer than the input if parts belong to ranks. Not ok if a device cannot be
  // read.
  Status add_input(std::uint64_t number, const void* input);
  Status add_result(const void* result, std::size_t n);
  std::uint64_t calls() const { return calls_; }
  std::uint64_t last_number() const { return last_number_; }
  // A hash of the numbers of its calls. It is equal on ranks that have added up the same calls.
  std::uint64_t hash() const { return numbers_.value(); }
  std::byte* inputs() const { return inputs_.data(); }
  std::byte* results() const { return results_.data(); }

 private:
  GuardWindow(std::string_view key, std::size_t count, kernels::Element element)
      : key_(key), count_(count), element_(element) {}
  Status add(std::byte* sum, const void* vector, std::size_t n);

  Key key_;
  std::size_t count_;
  kernels::Element element_;
  Buffer inputs_, results_, staged_;  // staged_: copy of a vector that is on a device
  std::uint64_t calls_ = 0, last_number_ = 0;
  Hash numbers_;
};

// One call that is judged. Elements are f32 or f64.
class GuardedCall {
 public:
  // To be called before the compressed call. Keeps the input, and the residual if the call has one (else
  // null), in host memory. window: the window that this call ends; null: the call is judged alone. Not ok if
  // there is no memory or a device cannot be read.
  Status prepare(const Call& call, kernels::Element element, const Residuals::Entry* residual,
                 GuardWindow* window);
  // The same for a call that no rank's residual belongs to, judged alone. Memory of an earlier call is used
  // again. The call may be an allgather or a broadcast: each rank then judges what it has brought itself. If
  // it is of several vectors, each is judged alone, and the worst of them counts. Vectors of fewer than
  // `shortest` elements have lost nothing, whatever rounding makes of a sum that cancels.
  Status prepare_alone(const Call& call, kernels::Element element, std::size_t shortest = 0);
  std::size_t bytes() const { return exact_.bytes() + waiting_.bytes() + delivered_.bytes(); }
  // To be called after the compressed call. Collective over the communicator; all ranks get the same answer.
  // ran: the call on this rank; all ranks have the same ran.promised. budget: 0 for none. had_keys: some rank
  // may have had a residual, which is delivered with the exact sum. An error comes from MPI.
  Result<GuardResult> judge(const Call& call, const Outcome& ran, double budget, bool had_keys);

 private:
  Status keep_input(const Call& call, kernels::Element element, GuardWindow* window);
  Status lacks_memory() const;
  Status sum_alone(const Call& call);
  Status deliver(const Call& call, bool had_keys);
  Status gather_again(const Call& call);

  GuardWindow* window_ = nullptr;

  Buffer exact_, waiting_, delivered_;  // exact_: the input first; delivered_: copy of a result on a device
  bool keeps_result_ = false;           // delivered_ gets the result
  std::size_t bytes_ = 0;               // of the input; of a call that adds nothing: this rank's
  // The bytes of the vector that are in the result. Of a call that adds nothing: the bytes of this rank's
  // input in recvbuf.
  std::size_t result_begin_ = 0, result_bytes_ = 0;
  std::size_t shortest_ = 0;
  double greatest_ = 0;  // finite magnitude of the input of a call that is judged alone
  kernels::Element element_ = kernels::Element::f32;
};

// The guard of all calls of one kind: one rule, with the same agreed options.
struct Guard {
  std::uint64_t calls = 0;              // compressed calls; the same on all ranks
  bool tripped = false;                 // the rule is given up; the same on all ranks
  std::uint64_t next_alone = 0;         // a call without a residual is judged once `calls` has reached this
  std::uint64_t splits = 0;             // consecutive splits of calls that were to be judged alone
  std::unique_ptr<GuardWindow> window;  // null: none is open
};

}  // namespace mq
