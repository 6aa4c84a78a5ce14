// Guard mode: some sums of compressed calls are made exactly as well, and compared; where the error is over
// the rule's budget the program gets the exact sum, and the rule is given up on this communicator, on all
// ranks at the same call. With guard=N:
//
//   a call without a residual   is judged alone: the first that a rule compresses, and every N-th after it.
//   calls with a residual       are judged together, N calls of one residual, as what one of them drops comes
//                               with the next. Each rank adds up its inputs and the results; at the last call
//                               one exact reduction tells what the results should have added up to. One
//                               residual of a rule at a time; when it has been judged the next call's
//                               follows.
//
// A window of calls is one rank's own until it is judged: the ranks compare which calls they have added up
// when they agree on the last of them, and where they differ that call is exact and the window is dropped.
//
// What waited in the residual of the call is delivered with the exact sum; what waits in others of the rule
// comes with the next exact sum of each.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/memory/residuals.hpp"

namespace mq {

struct Verdict {
  // Relative L2; Inf if a value that is not finite came out finite, or the other way round. < 0: the exact
  // sum has such values, which a method may have no room beside: nothing to judge.
  double error = 0;
  bool given_up = false;
  bool replaced = false;  // the exact sum is delivered: the rule is given up, or a rank has no result
  Status delivered;       // of it: ok if recvbuf has the exact sum on all ranks, else not ok on all
};

// Calls with one residual that are judged together; elements are f32 or f64.
class GuardWindow {
 public:
  // Null: no memory.
  static std::unique_ptr<GuardWindow> open(std::string_view key, std::size_t count, kernels::Element element);
  bool is_of(std::string_view key, std::size_t count, kernels::Element element) const {
    return key == key_.view() && count == count_ && element == element_;
  }
  // Before a call, with its number among those of the rule: its input. Afterwards: its result. Not ok: a
  // device that cannot be read.
  Status add_input(std::uint64_t number, const void* input);
  Status add_result(const void* result);
  std::uint64_t calls() const { return calls_; }
  std::uint64_t last_number() const { return last_number_; }
  // Of the numbers of its calls: equal on ranks that have added up the same ones.
  std::uint64_t hash() const { return numbers_.value(); }
  std::byte* inputs() const { return inputs_.data(); }
  const std::byte* results() const { return results_.data(); }

 private:
  GuardWindow(std::string_view key, std::size_t count, kernels::Element element)
      : key_(key), count_(count), element_(element) {}
  Status add(std::byte* sum, const void* vector);

  Key key_;
  std::size_t count_;
  kernels::Element element_;
  Buffer inputs_, results_, staged_;  // staged_: of a vector on a device
  std::uint64_t calls_ = 0, last_number_ = 0;
  Hash numbers_;
};

// A call that is judged, of f32 or f64 elements.
class GuardedCall {
 public:
  // Before the compressed call: keeps the input and the residual, if the call has one (else null), in host
  // memory. window: of which this call is the last; null: it is judged alone. Not ok: no memory, or a device
  // that cannot be read.
  Status prepare(const Call& call, kernels::Element element, const Residuals::Entry* residual,
                 GuardWindow* window);
  // After it. Collective over the communicator; all ranks get the same verdict. ran: what became of the call
  // on this rank. budget: 0 for none. had_keys: some rank may have had a residual, which is delivered with
  // the exact sum. An error: of MPI.
  Result<Verdict> judge(const Call& call, Status ran, double budget, bool had_keys);

 private:
  Status exact_sum(const Call& call);
  Status deliver(const Call& call, bool had_keys);

  GuardWindow* window_ = nullptr;

  Buffer exact_, waiting_, delivered_;               // delivered_: of a result on a device
  bool keeps_input_ = false, keeps_result_ = false;  // exact_ has the input; the result goes to delivered_
  std::size_t bytes_ = 0;
  kernels::Element element_ = kernels::Element::f32;
};

// Of the calls of one kind: those of one rule, as far as the ranks agree on it.
struct Guard {
  std::uint64_t calls = 0;              // compressed; the same on all ranks
  bool tripped = false;                 // given up; likewise
  std::uint64_t next_alone = 0;         // `calls` at which a call without a residual is judged again
  std::uint64_t splits = 0;             // one after the other, of calls that were to be judged alone
  std::unique_ptr<GuardWindow> window;  // null: none is open
};

}  // namespace mq
