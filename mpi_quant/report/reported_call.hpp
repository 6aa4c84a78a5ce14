// Remembers the outcome of one intercepted call until the call is over.
#pragma once

#include <cstdint>
#include <string_view>

#include "mpi_quant.h"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/report/record.hpp"

namespace mq {

// The class of a call with valid handles.
ClassId class_of(const Call& call);

// Records a call that MPI makes, from construction to end(), in this thread's record; times are in ticks.
// Reading the clock costs more than everything else here. So only the first calls of a class are timed; after
// that every 16th call is timed and stands for all 16. Nothing is recorded if there is no memory for it.
class ExactCall {
 public:
  ExactCall(const Call& call, Reason reason) noexcept;
  void end() noexcept {
    if (weight_ > 0) numbers_->seconds += weight_ * static_cast<double>(ticks() - begin_);
  }

 private:
  Numbers* numbers_ = nullptr;
  double weight_ = 0;  // the number of calls that this one stands for; 0: not timed
  std::uint64_t begin_ = 0;
};

// A call that reached the policy.
struct ReportedCall {
  Reason reason = Reason::outside;
  FeedbackOutcome feedback = FeedbackOutcome::none;
  std::string_view site, method;
  double guard_error = -1;  // < 0: not guarded
  Work work;

  // Adds this call, with all that is known of it, to the record of the calling thread.
  void take(const Call& call, std::uint64_t ticks) const noexcept;

 private:
  void add_to(Numbers& numbers, std::uint64_t bytes, std::uint64_t ticks) const;
};

}  // namespace mq
