// What happened to the residual of one call. The preload library records it, and its report names it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mq {

// The outcomes of a call that asked for feedback without naming a key (mpiq_key).
enum class FeedbackOutcome : std::uint8_t {
  none,         // no feedback was asked for, or none is possible
  unconfirmed,  // not yet recognised as the same tensor from call to call
  hit,          // the residual of an earlier call was added
  fresh,        // the residual is new: the first call that has one
  stranger,     // no feedback: the values belong to another tensor than the known one
  shape,        // dropped: this key, address or position had another count or type before
  in_use,       // no feedback: a request of the program uses the residual
  budget,       // dropped or not made: no memory is left for residuals
  not_finite,   // left as it was: the vector has NaN or Inf
};
inline constexpr std::size_t kFeedbackOutcomes = static_cast<std::size_t>(FeedbackOutcome::not_finite) + 1;

}  // namespace mq
