// What the agreement of a call brings for `auto`: the greatest of each number over all ranks, so that all
// choose by the same numbers. A rate is 1 / seconds. The rank that comes last waits for nobody, so its time
// is the shortest and its rate the greatest. 0: not known.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace mq {

// What a candidate did to a sample. error: relative to the sample; with memory the vectors in debt.
struct Sampled {
  float error = 0;
  float wire_bytes = 0;  // of an element
};

// Not negative, and finite: samples with NaN or Inf have the greatest number as their error.
struct Heard {
  float call_rate = 0;       // calls a second: of the call of the class that had the last agreement
  float dense_rate = 0;      // of calls that MPI reduced since then; the least
  float agreement_rate = 0;  // of the last agreement
  // If Choice::measures: elements of the vector a second that int8 encodes and decodes here. The fastest
  // rank's, as for times: a rank that is disturbed while it measures would hide what pays. What calls take
  // corrects it.
  float encode_rate = 0, decode_rate = 0;
  // A hash of what the rank's chooser knows, and its complement. The greatest of each are complements of each
  // other if and only if all ranks have the same.
  std::uint16_t state = 0, state_complement = 0;
  Sampled own, scouted;  // of Choice::candidate and Choice::scouted
};
// Compared as integers: a rank may treat subnormal numbers as 0.
inline float greatest(float a, float b) {
  return std::bit_cast<std::int32_t>(a) < std::bit_cast<std::int32_t>(b) ? b : a;
}
inline Sampled greatest(const Sampled& a, const Sampled& b) {
  return {greatest(a.error, b.error), greatest(a.wire_bytes, b.wire_bytes)};
}
inline Heard greatest(const Heard& a, const Heard& b) {
  return {greatest(a.call_rate, b.call_rate),
          greatest(a.dense_rate, b.dense_rate),
          greatest(a.agreement_rate, b.agreement_rate),
          greatest(a.encode_rate, b.encode_rate),
          greatest(a.decode_rate, b.decode_rate),
          std::max(a.state, b.state),
          std::max(a.state_complement, b.state_complement),
          greatest(a.own, b.own),
          greatest(a.scouted, b.scouted)};
}
inline bool all_know_the_same(const Heard& heard) { return (heard.state ^ heard.state_complement) == 0xffff; }

}  // namespace mq
