// The plans: who encodes what, for whom, and when. They are pure functions of Ranks, apart from everything
// that runs them, so that tests/plan/plan_test.cpp can prove each for every rank.
//
// n is the vector, w the encoded vector, P the number of ranks, alpha the latency of one message, C and D
// encode and decode. Steps are ordered for overlap: what another rank waits for is made first. No step writes
// a slot that a send may still be reading, so a rank waits for data only.

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "mpi_quant/plan/rows.hpp"

namespace mq {

// The operand's Step::sum is negative. No other step of a plan has a negative one.
void round_own(Plan& plan, int rank, int chunk, int slot, bool raw) {
  const int sum = -1 - rank;
  plan.encode(chunk, slot, StepFeedback::carry, sum, raw);
  plan.decode(chunk, slot, sum, raw);
}

void sum_at_owners(Plan& plan, const Ranks& ranks) {
  const int rank = ranks.rank, size = ranks.size;
  const auto to = [&](int s) { return (rank + s) % size; };
  const auto from = [&](int s) { return (rank - s + size) % size; };
  const auto send_slot = [](int s) { return s - 1; };
  const auto recv_slot = [&](int s) { return size - 1 + s - 1; };

  for (int s = 1; s < size; ++s) {
    plan.encode(to(s), send_slot(s), StepFeedback::carry, rank);
    plan.exchange(send_slot(s), to(s), recv_slot(s), from(s), 0);
  }
  if (ranks.encodes_own || ranks.carries_own) round_own(plan, rank, rank, 2 * (size - 1), !ranks.encodes_own);
  for (int source = 0; source < size; ++source)
    if (source != rank) plan.decode_add(rank, recv_slot((rank - source + size) % size), source);
}

// Reduce-scatter and allgather by owners (Seide et al., 1-bit SGD, Interspeech 2014; Dryden et al., MLHPC
// 2016). Slice p of the vector belongs to rank p. Round 0: everyone sends each owner C(the owner's slice).
// The owner adds what it receives to its own part, which is not encoded, in rank order. Round 1: the owner
// encodes the sum, replaces its own copy by what the others will decode, and sends the encoded sum to all.
// Each element of the residual array takes one loss: the loss of the contribution, or on the owner the loss
// of the sum.
// 2(P-1) messages, 2(P-1)/P w sent; encodes n, decodes 2n(P-1)/P + n/P elements.
//
// 2P-1 slots: P-1 to send from, P-1 to receive into, and one for the sum. Round 1 receives into the slots of
// round 0, whose wires have been added by then. The sum has a slot of its own because the first sends may
// still be under way, and owners must not wait for slow receivers.
//
// If own elements are encoded (Ranks::encodes_own), the owner encodes and decodes its own part too: n/P more
// of each.
Plan make_direct(const Ranks& ranks) {
  const int rank = ranks.rank, size = ranks.size;
  Plan plan{.chunks = size, .slots = 2 * size - 1, .rounds = 2, .steps = {}};
  sum_at_owners(plan, ranks);
  const auto to = [&](int s) { return (rank + s) % size; };
  const auto from = [&](int s) { return (rank - s + size) % size; };
  const auto recv_slot = [&](int s) { return size - 1 + s - 1; };
  const int own_slot = 2 * (size - 1);

  const int all = size;  // Step::sum of the result; a contribution's is its rank
  plan.encode(rank, own_slot, ranks.encodes_own ? StepFeedback::deposit : StepFeedback::carry, all);
  for (int s = 1; s < size; ++s) plan.exchange(own_slot, to(s), recv_slot(s), from(s), 1);
  plan.decode(rank, own_slot, all);
  for (int s = 1; s < size; ++s) plan.decode(from(s), recv_slot(s), all);
  return plan;
}

namespace {

// Everyone sends its encoded vector to everyone and adds all of them in rank order, its own included. Each
// element takes one loss for each contribution. Against direct: half the messages, P/2 times the bytes.
// P-1 messages, (P-1) w sent; encodes n, decodes P n elements. P slots: slot q holds the wire of rank q.
Plan make_allgather(const Ranks& ranks) {
  const int rank = ranks.rank, size = ranks.size;
  Plan plan{.chunks = 1, .slots = size, .rounds = 1, .steps = {}};
  plan.encode(0, rank, StepFeedback::carry, rank);
  for (int s = 1; s < size; ++s) {
    const int from = (rank - s + size) % size;
    plan.exchange(rank, (rank + s) % size, from, from, 0);
  }
  plan.decode(0, 0, 0);
  for (int source = 1; source < size; ++source) plan.decode_add(0, source, source);
  return plan;
}

// Step::sum of recursive doubling: the lowest of the `group` ranks that hold the partial sum, each level of
// groups apart. Extra ranks, which are not below core, have their own numbers on the first level.
int doubling_sum(const Ranks& ranks, int level, int rank) {
  return level * ranks.size + (rank >> level << level);
}

// The plan of a rank beyond the largest power of two. It gives its vector to a core rank before round 1. It
// gets the two wires of the core rank's last round, and so the same result without another loss. 3 slots: its
// own wire and these two.
Plan make_extra(const Ranks& ranks, int core) {
  const int rank = ranks.rank;
  const int last = std::countr_zero(static_cast<unsigned>(core)), partner = rank - core;
  Plan plan{.chunks = 1, .slots = 3, .rounds = last + 3, .steps = {}};
  plan.encode(0, 0, StepFeedback::carry, doubling_sum(ranks, 0, rank));
  plan.send(0, partner, 0);
  plan.receive(1, partner, last + 1);
  plan.receive(2, partner, last + 2);
  plan.decode(0, 1, doubling_sum(ranks, last - 1, 0));
  plan.decode_add(0, 2, doubling_sum(ranks, last - 1, core / 2));
  return plan;
}

// Recursive doubling. In round k = 1, 2, ... two partners, whose ranks differ in bit k-1, encode their
// partial sums and swap them. Both replace their sum by D(lower rank's) + D(upper rank's). After round k
// groups of 2^k ranks hold the same bits. So they write the same wire in round k+1, and only one of them, the
// lowest, keeps its loss in the residual. If P is not a power of two, core is the largest one below it, and
// rank core + i joins by way of rank i (make_extra). log2(core) messages of w; encodes log2(core) n, decodes
// 2 log2(core) n elements. An element takes log2(core) losses, on growing partial sums. The plan is for short
// vectors, where the messages of direct cost more.
//
// 2 log2(core) slots, two for each round, and one more for the wire of an extra rank. So no round waits for
// the sends of an earlier one, and all receives can be posted at the start. Round 0 and the last two rounds
// are for extra ranks. With Ranks::encodes_own
// a rank that has an extra one encodes and decodes its own vector first.
Plan make_recursive_doubling(const Ranks& ranks) {
  const int rank = ranks.rank, size = ranks.size;
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  if (rank >= core) return make_extra(ranks, core);
  const int last = std::countr_zero(static_cast<unsigned>(core));
  const int extra = rank + core < size ? rank + core : kNobody;
  const int extra_slot = 2 * last;

  Plan plan{.chunks = 1,
            .slots = 2 * last + (extra != kNobody),
            .rounds = core == size ? last + 1 : last + 3,
            .steps = {}};
  const bool rounds_own = extra != kNobody && ranks.encodes_own;
  if (extra != kNobody) {
    plan.receive(extra_slot, extra, 0);
    if (rounds_own) round_own(plan, rank, 0, 0);
    plan.decode_add(0, extra_slot, doubling_sum(ranks, 0, extra));
  }
  for (int round = 1; round <= last; ++round) {
    const int group = 1 << (round - 1);  // ranks that hold the same partial sum
    const int partner = rank ^ group;
    const int mine = 2 * (round - 1), theirs = mine + 1;
    const int lower = rank < partner ? mine : theirs, upper = rank < partner ? theirs : mine;
    const StepFeedback feedback = round == 1 && !rounds_own ? StepFeedback::carry
                                  : rank % group == 0       ? StepFeedback::deposit
                                                            : StepFeedback::none;
    const auto sum_of = [&](int holder) { return doubling_sum(ranks, round - 1, holder); };
    plan.encode(0, mine, feedback, sum_of(rank));
    plan.exchange(mine, partner, theirs, partner, round);
    if (round == last && extra != kNobody) {
      plan.send(lower, extra, last + 1);
      plan.send(upper, extra, last + 2);
    }
    plan.decode(0, lower, sum_of(std::min(rank, partner)));
    plan.decode_add(0, upper, sum_of(std::max(rank, partner)));
  }
  return plan;
}

constexpr std::array kPlans{
    PlanRow{"direct", 1,
            "reduce-scatter to slice owners, then allgather: 2(P-1) messages, 2(P-1)/P vectors sent",
            make_direct},
    PlanRow{"allgather", 2, "every encoded vector to every rank: P-1 messages, P-1 vectors sent",
            make_allgather},
    PlanRow{"recursive_doubling", 3,
            "sums re-encoded between 2, 4, 8, ... ranks: log2 P messages and vectors sent",
            make_recursive_doubling},
    PlanRow{
        "ring", 5,
        "partial sums round a ring, re-encoded by each rank, then the result: 2(P-1) messages one after the other, "
        "2(P-1)/P vectors sent",
        make_ring},
    PlanRow{
        "halving_doubling", 6,
        "halves swapped and re-encoded log2 P times, then the results back: 2 log2 P rounds, 2(P-1)/P vectors sent",
        make_halving_doubling},
    PlanRow{
        "grid", 7,
        "sums of the rows of a grid of ranks, then of its columns, then the results: about 4.5 sqrt P messages, "
        "at most 2.5 vectors sent",
        make_grid},
    PlanRow{"hierarchical", 4,
            "exact sums inside nodes of L ranks, then direct between nodes: 2(P/L-1)/P vectors sent to other "
            "nodes, and 1-1/L of a vector inside the node, both raw and encoded",
            make_hierarchical},
};
constexpr const PlanRow &kDirect = kPlans[0], &kAllgather = kPlans[1], &kRecursiveDoubling = kPlans[2],
                        &kGrid = *std::find_if(kPlans.begin(), kPlans.end(),
                                               [](const PlanRow&row) { return row.name == "grid"; });

// Vectors below kShortBytes, and of many ranks below kShortBytesOfRoot sqrt P, take the plan with the fewest
// messages one after the other. Vectors of kLongBytesOfRank bytes a rank or more have messages so long that
// their number does not matter. Between them the number of messages of a rank counts. These are round numbers
// near where the times of the plans cross, on four networks and with three codecs:
// results/2026-11-25-scale/README.md.
constexpr std::uint64_t kShortBytes = 32 << 10, kShortBytesOfRoot = 4 << 10, kLongBytesOfRank = 256 << 10;
constexpr std::uint64_t kLeastGrid = 8;  // ranks: with fewer, direct has few messages, too

// The square root, rounded down. p < 2^31.
constexpr std::uint64_t root(std::uint64_t p) {
  std::uint64_t r = 0;
  for (std::uint64_t bit = 1 << 16; bit > 0; bit /= 2)
    if ((r + bit) * (r + bit) <= p) r += bit;
  return r;
}

}  // namespace

PlanIndex index_of(const Plan& plan) {
  PlanIndex plan_index;
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<char> used(index(plan.slots));
  std::set<std::pair<int, int>> late;  // senders and tags of receives that cannot be posted at the start
  std::vector<int> writes(index(plan.chunks));
  plan_index.first_send.resize(index(plan.slots) + 1);
  for (const Step& s : plan.steps) {
    plan_index.raw = plan_index.raw || s.raw;
    const bool receives = s.op == Op::exchange && s.from != kNobody;
    const bool sends = s.op == Op::exchange && s.to != kNobody;
    const std::pair message{s.from, tag_of(plan, s)};
    plan_index.early.push_back(receives && !used[index(s.recv_slot)] && !late.contains(message));
    if (receives && !plan_index.early.back()) late.insert(message);
    if (receives) used[index(s.recv_slot)] = 1;
    if (sends || s.op != Op::exchange) used[index(s.slot)] = 1;
    if (sends) ++plan_index.first_send[index(s.slot) + 1];
    if (s.op == Op::decode || s.op == Op::decode_add) ++writes[index(s.chunk)];
  }
  for (std::size_t slot = 0; slot < used.size(); ++slot)
    plan_index.first_send[slot + 1] += plan_index.first_send[slot];
  for (const int n : writes)
    plan_index.accumulator.push_back(n > (plan.has_result ? 1 : 0) ? plan_index.accumulators++ : -1);
  plan_index.summands.resize(plan.steps.size());
  for (std::size_t i = plan.steps.size(); i-- > 0;) {
    const Step& s = plan.steps[i];
    if (s.op != Op::decode && s.op != Op::decode_add) continue;
    const Step* const next = i + 1 < plan.steps.size() ? &plan.steps[i + 1] : nullptr;
    const bool goes_on =
        next != nullptr && next->op == Op::decode_add && next->chunk == s.chunk && next->raw == s.raw;
    plan_index.summands[i] = 1 + (goes_on ? plan_index.summands[i + 1] : 0);
  }
  for (const Step& s : plan.steps)
    plan_index.final.push_back((s.op == Op::decode || s.op == Op::decode_add) &&
                               --writes[index(s.chunk)] == 0 && plan.has_result);
  return plan_index;
}

std::span<const PlanRow> plans() noexcept { return kPlans; }

const PlanRow* find_plan(std::string_view name) noexcept {
  const auto at =
      std::find_if(kPlans.begin(), kPlans.end(), [&](const PlanRow& row) { return row.name == name; });
  return at == kPlans.end() ? nullptr : &*at;
}

// Never chooses hierarchical. Nothing here says how much slower messages between nodes are than memory. With
// all ranks on one node, hierarchical does no more than direct and sends more bytes.
//
// At two ranks allgather sends as many bytes as direct, in half the messages and with half the losses.
const PlanRow& choose_plan(std::uint64_t bytes, int ranks) noexcept {
  if (ranks <= 2) return kAllgather;
  const auto p = static_cast<std::uint64_t>(ranks);
  const bool is_short = bytes < std::max(kShortBytes, kShortBytesOfRoot * root(p));
  if (p < kLeastGrid) return is_short ? kAllgather : kDirect;
  return is_short ? kRecursiveDoubling : bytes < kLongBytesOfRank * p ? kGrid : kDirect;
}

}  // namespace mq
