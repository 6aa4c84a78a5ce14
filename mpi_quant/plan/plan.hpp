// An allreduce as a value: a short program over chunks of the vector and slots of wire memory.
// Separate from the executor so that a plan can be proved (tests/symbolic.hpp), priced and printed without
// running it.
//
// Words: the vector is cut into *segments*, each reduced by the same plan, several in flight; a segment is
// cut into plan.chunks *chunks* (slices) of whole blocks, some possibly empty; a *slot* holds one encoded
// chunk (a frame).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mq {

inline constexpr int kNobody = -1;

enum class Op : std::uint8_t {
  encode,      // slot = C(chunk)                                   with step.feedback
  exchange,    // send slot to `to`, receive into recv_slot from `from`; either may be kNobody
  decode,      // chunk = D(slot)
  decode_add,  // chunk = chunk + D(slot)
};

enum class StepFeedback : std::uint8_t {
  none,
  carry,
  deposit
};  // kernels::Feedback, if the call has a residual

// A chunk is read from the input until the first step that writes it, from the output after.
struct Step {
  Op op;
  int chunk = 0;     // encode, decode, decode_add
  int slot = 0;      // encode: written; decode, decode_add: read; exchange: sent
  int to = kNobody;  // exchange
  int from = kNobody;
  int recv_slot = 0;  // exchange: written
  int round = 0;      // exchange: two messages between the same two ranks in one segment differ in it
  StepFeedback feedback = StepFeedback::none;
  bool raw = false;  // encode, decode, decode_add: C and D are those of codec raw, which loses nothing
  bool operator==(const Step&) const = default;
};

struct Plan {
  int chunks = 0, slots = 0, rounds = 0;
  std::vector<Step> steps;
  bool operator==(const Plan&) const = default;
};

// What an executor wants to know of a plan, worked out once.
struct PlanFacts {
  // By step: an exchange whose receive slot no earlier step uses, so that the receive can be posted at the
  // start.
  std::vector<char> early;
  // By step: a decode or decode_add that no other step of this chunk follows: it writes the result.
  std::vector<char> final;
  // By chunk: its accumulator, for chunks that are written more than once; or -1.
  std::vector<int> accumulator;
  int accumulators = 0;
  // Whether a step is raw: then slots need room for the elements themselves, and the job their codec.
  bool raw = false;
  // By slot: where its sends begin when the sends of all slots are numbered; one more entry for their number.
  std::vector<int> first_send;
};
PlanFacts facts_of(const Plan& plan);

// Who a plan is made for. per_node ranks with consecutive numbers share each node: it divides size, and ranks
// r with the same r / per_node are on one. 1 where nodes differ in their ranks, or are not to count.
struct Ranks {
  int rank = 0, size = 2, per_node = 1;
  int nodes() const { return size / per_node; }
};

// No plan has more rounds: lanes times rounds are the tags of a call (CallOrder::kTagsPerWindow).
inline constexpr int kMaxRounds = 960;

// A row of the table of plans. make is a pure function, defined for 0 <= rank < size, every size >= 2 and
// every per_node >= 1 that divides size. Chunks and rounds are those of all ranks.
struct PlanRow {
  std::string_view name;  // the word after '/' in a method
  std::uint16_t id;       // part of the call's signature
  std::string_view what;  // one line for --list: steps, bytes sent per rank in units of the encoded vector
  Plan (*make)(const Ranks& ranks);
};

std::span<const PlanRow> plans() noexcept;
const PlanRow* find_plan(std::string_view name) noexcept;

// The plan of a call whose method names none: a pure function of the vector's bytes and the number of ranks.
const PlanRow& choose_plan(std::uint64_t bytes, int ranks) noexcept;

}  // namespace mq
