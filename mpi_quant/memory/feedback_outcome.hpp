// What became of the residual of one call: recorded by the preload library, named in its report.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mq {

// What became of the residual of a call that asked for feedback without naming a key.
enum class FeedbackOutcome : std::uint8_t {
  none,         // no feedback asked for, or none possible
  unconfirmed,  // nothing shows yet that the vectors under this address or position are one tensor
  hit,          // the residual of the call before was added
  fresh,        // the first call with one
  stranger,     // not fed back: the values are not those of the tensor that is known here
  shape,        // dropped: another count or type under this key or at this position
  in_use,       // not fed back: a request of the program's own uses the residual
  budget,       // dropped or not made: no memory left for residuals
  not_finite,   // left as it was: NaN or Inf in the vector
};
inline constexpr std::size_t kFeedbackOutcomes = static_cast<std::size_t>(FeedbackOutcome::not_finite) + 1;

}  // namespace mq
