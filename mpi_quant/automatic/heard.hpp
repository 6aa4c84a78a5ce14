// What the agreement of a call brings for `auto`: the greatest of each number over all ranks, so that all
// choose by the same numbers. A rate is 1 / seconds. The rank that comes last waits for nobody, so its time
// is the shortest and its rate the greatest. 0: not known.
//
// Collectives with a root, or with parts of very different lengths, are different: some ranks only send, and
// leave before the others have what they need. There the time of the slowest rank counts. Only blocking calls
// with an agreement are timed there, from its end on. All ranks begin together then, so the slowest time is
// what the call takes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "mpi_quant/plan/collective.hpp"

namespace mq {

// What a candidate did to a sample. error: relative to the sample; with memory the vectors in debt.
struct Sampled {
  float error = 0;
  float wire_bytes = 0;  // of an element
};

// Whose time of a call counts.
enum class TimedRank : std::uint8_t { fastest, slowest };
constexpr TimedRank timed_rank(Collective collective, bool has_uneven_parts) {
  return has_root(collective) || has_uneven_parts ? TimedRank::slowest : TimedRank::fastest;
}
// Makes the number that a rank brings of a time. The greatest number of all ranks is then the time of the
// rank that counts. seconds_of() turns it into a time again.
inline float brought(double seconds, TimedRank timed) {
  if (!(seconds > 0)) return 0;
  return static_cast<float>(timed == TimedRank::fastest ? 1 / seconds : seconds);
}
inline double seconds_of(float brought, TimedRank timed) {
  if (!(brought > 0)) return 0;
  return timed == TimedRank::fastest ? 1 / static_cast<double>(brought) : static_cast<double>(brought);
}

// Not negative, and finite: samples with NaN or Inf have the greatest number as their error.
struct Heard {
  // brought(): the call of the class that had the last agreement. If MPI reduced it: only what it took,
  // before that agreement, to prepare a method or to try some on samples.
  float call = 0;
  float dense = 0;           // the least of the calls that MPI reduced since then
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
  return {greatest(a.call, b.call),
          greatest(a.dense, b.dense),
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
