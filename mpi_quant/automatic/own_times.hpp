// The times of one rank's calls of a class, kept until an agreement brings them to all ranks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "mpi_quant/automatic/chooser.hpp"

namespace mq {

class OwnTimes {
 public:
  // timed: CallClass::timed.
  explicit OwnTimes(TimedRank timed) : timed_(timed) {}
  // The last call with an agreement: seconds of the whole call, and of the part after the agreement.
  void add_call(double seconds, double after_agreement_s) {
    call_s_ = timed_ == TimedRank::fastest ? seconds : after_agreement_s;
  }
  // The last call with an agreement was MPI's: what it took to try methods before the agreement.
  void add_trying(double seconds) { call_s_ = seconds; }
  void add_agreement(double seconds) { agreement_s_ = seconds; }
  // Whether MPI's own call says anything. number: among the calls of the class, from 1 on. The first one also
  // makes connections and memory, which shows only beside others.
  bool counts(bool has_agreed, std::uint64_t number) const {
    return timed_ == TimedRank::fastest || (has_agreed && number > 1);
  }
  // A call that MPI reduced, which counts. seconds: of MPI's part.
  void add_dense(double seconds) { dense_[dense_calls_++ % dense_.size()] = seconds; }
  // What is known since it was asked last; unknown times are 0. Sets the times only.
  void take(Heard& into) {
    into.call = brought(call_s_, timed_);
    into.agreement_rate = brought(agreement_s_, TimedRank::fastest);
    into.dense = brought(least_dense(), timed_);
    forget();
  }
  void forget() {
    call_s_ = agreement_s_ = 0;
    dense_calls_ = 0;
  }

 private:
  // The least, not the median: with ranks that come late in turn, most times of a rank contain waiting.
  double least_dense() const {
    const std::size_t n = std::min(dense_calls_, dense_.size());
    return n == 0 ? 0 : *std::min_element(dense_.begin(), dense_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  TimedRank timed_;
  double call_s_ = 0, agreement_s_ = 0;
  std::array<double, 7> dense_{};  // the last calls
  std::size_t dense_calls_ = 0;
};

}  // namespace mq
