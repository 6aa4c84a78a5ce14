// An allreduce as a value: a short program over chunks of the vector and slots for frames.
// It is apart from the executor so that a plan can be proved (tests/plan/symbolic.hpp), priced and printed
// without running it.
//
// Words: the vector is cut into *segments*. Each is reduced by the same plan, and several are in flight at
// once. A segment is cut into plan.chunks *chunks* of whole blocks, some possibly empty. A *slot* holds one
// encoded chunk (a frame).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mpi_quant/plan/collective.hpp"

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

// A chunk is read from the input until the first step that writes it, and from the output after that step.
struct Step {
  Op op;
  int chunk = 0;     // encode, decode, decode_add
  int slot = 0;      // encode: written; decode, decode_add: read; exchange: sent
  int to = kNobody;  // exchange
  int from = kNobody;
  int recv_slot = 0;  // exchange: written
  int round = 0;      // exchange: the messages of a round are under way at about the same time
  StepFeedback feedback = StepFeedback::none;
  bool raw = false;  // encode, decode, decode_add: C and D are codec raw's, which is lossless
  // encode: which operand of this chunk is encoded; decode, decode_add: which one the wire holds. Two encodes
  // of a chunk, on any ranks, have the same number if and only if their operands have the same terms. Codecs
  // that draw random numbers draw by it: ranks that encode the same operand must write the same wire, and the
  // errors of different operands must be independent.
  int sum = 0;
  bool operator==(const Step&) const = default;
};

struct Plan {
  int chunks = 0, slots = 0, rounds = 0;
  std::vector<Step> steps;
  bool has_result = true;  // false: what this rank adds up is for others, and its output is not touched
  bool rooted = false;     // of a collective with a root
  bool operator==(const Plan&) const = default;

  // Makers of plans append steps by these.
  void encode(int chunk, int slot, StepFeedback feedback, int sum, bool raw = false) {
    steps.push_back(
        {.op = Op::encode, .chunk = chunk, .slot = slot, .feedback = feedback, .raw = raw, .sum = sum});
  }
  void decode(int chunk, int slot, int sum, bool raw = false) {
    steps.push_back({.op = Op::decode, .chunk = chunk, .slot = slot, .raw = raw, .sum = sum});
  }
  void decode_add(int chunk, int slot, int sum, bool raw = false) {
    steps.push_back({.op = Op::decode_add, .chunk = chunk, .slot = slot, .raw = raw, .sum = sum});
  }
  void exchange(int slot, int to, int recv_slot, int from, int round) {
    steps.push_back(
        {.op = Op::exchange, .slot = slot, .to = to, .from = from, .recv_slot = recv_slot, .round = round});
  }
  void send(int slot, int to, int round) { exchange(slot, to, 0, kNobody, round); }
  void receive(int recv_slot, int from, int round) { exchange(0, kNobody, recv_slot, from, round); }
};

// The tags of a segment. Messages between the same two ranks with the same tag are matched in the order of
// the steps, on both sides. A plan may have several in one round, and rounds that differ by a multiple of
// kMaxTags share a tag. Segments in flight times tags are the tags of a call (CallOrder::kTagsPerWindow), so
// that there are always four segments at least.
inline constexpr int kMaxTags = 240;
inline int tags_of(const Plan& plan) { return std::min(plan.rounds, kMaxTags); }
inline int tag_of(const Plan& plan, const Step& exchange) { return exchange.round % tags_of(plan); }

// What an executor needs to know about a plan, computed once.
struct PlanIndex {
  // By step: 1 for an exchange whose receive can be posted at the start: no earlier step uses its slot, and
  // no earlier receive with the same sender and tag must be posted later.
  std::vector<char> early;
  // By step: 1 for the last decode or decode_add of a chunk. It writes the result, if this rank has one.
  std::vector<char> final;
  // By step: how many decodes of one chunk follow each other from this one on, itself included, that can be
  // done in one pass; 0 for steps of other kinds.
  std::vector<int> summands;
  // By chunk: the number of its accumulator, for chunks that are written other than by the step that writes
  // the result; -1 for others.
  std::vector<int> accumulator;
  int accumulators = 0;
  // True if a step is raw. Slots then need room for the elements themselves, and the reduction needs their
  // codec.
  bool raw = false;
  // By slot: the number of its first send, if the sends of all slots are numbered. The last entry is the
  // number of all sends.
  std::vector<int> first_send;
};
PlanIndex index_of(const Plan& plan);

// Whom a plan is made for. Each node holds per_node ranks with consecutive numbers: ranks with the same
// r / per_node share a node, and per_node divides size. It is 1 if nodes have different numbers of ranks, or
// if nodes are to be ignored.
struct Ranks {
  int rank = 0, size = 2, per_node = 1;
  // Every rank encodes its own elements before any are added, also the rank that adds. Only these encodes
  // have StepFeedback::carry, and encodes of sums have deposit or none. For memory rules whose arrays follow
  // a rank's own elements (MemoryRule::encodes_own), and for codecs whose sums are exact (Codec::exact_sums):
  // their results are sums of the same numbers, and while these sums are exact, all plans and numbers of
  // ranks on a node give the same bits.
  bool encodes_own = false;
  // Of a reduce-scatter or a reduction to a root that has a residual: a rank that keeps elements of the
  // result adds what the residual holds of them, though it sends nothing. So an allreduce may use the key in
  // turn.
  bool carries_own = false;
  int root = 0;  // of a collective that has one
  int nodes() const { return size / per_node; }
};

// A row of the table of plans. make is a pure function, defined for 0 <= rank < size, for every size >= 2,
// and for every per_node >= 1 that divides size. All ranks get the same numbers of chunks and of rounds.
struct PlanRow {
  std::string_view name;  // the word after '/' in a method
  std::uint16_t id;       // part of the call's signature
  std::string_view what;  // one line for --list: steps, bytes sent per rank in units of the encoded vector
  Plan (*make)(const Ranks& ranks);
};

std::span<const PlanRow> plans() noexcept;
const PlanRow* find_plan(std::string_view name) noexcept;

// The plan for a method that names none. It depends only on the bytes of the vector and the number of ranks.
const PlanRow& choose_plan(std::uint64_t bytes, int ranks) noexcept;

// The plan of another collective, which no method names. Null for an allreduce. A collective with a root has
// two: which one depends on the bytes of the encoded vector and on the number of ranks.
const PlanRow* plan_of(Collective collective, std::uint64_t encoded_bytes = 0, int ranks = 2) noexcept;

}  // namespace mq
