// The plans of collectives with a root, which alone has the input or gets the result. The comments number the
// ranks from the root on: the root is rank 0, and rank v is v places behind it.

#include <algorithm>
#include <bit>

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

// The rank v places behind the root.
int behind_root(const Ranks& ranks, int v) { return (ranks.root + v) % ranks.size; }
int places_behind_root(const Ranks& ranks) { return (ranks.rank - ranks.root + ranks.size) % ranks.size; }

// A binomial tree: v is a child of v without its lowest bit. The children of v are v + bit, for all bits
// below that one. Messages over bit b are in round rounds() - 1 - log2 b of a broadcast.
struct Tree {
  explicit Tree(const Ranks& ranks)
      : size(static_cast<unsigned>(ranks.size)), v(static_cast<unsigned>(places_behind_root(ranks))) {}
  int rounds() const { return static_cast<int>(std::bit_width(size - 1)); }
  unsigned lowest_bit() const { return v == 0 ? std::bit_ceil(size) : v & (~v + 1); }
  int parent() const { return static_cast<int>(v - lowest_bit()); }
  bool has_child(unsigned bit) const { return bit < lowest_bit() && v + bit < size; }
  int child(unsigned bit) const { return static_cast<int>(v + bit); }
  unsigned size, v;
};
int log2_of(unsigned bit) { return std::countr_zero(bit); }

// The root encodes the vector once. Its wire goes down a tree unchanged, to the child with most descendants
// first. All ranks decode it, the root as well. log2 P rounds; the root sends log2 P w. One slot.
Plan make_bcast_tree(const Ranks& ranks) {
  const Tree tree(ranks);
  Plan plan{.chunks = 1, .slots = 1, .rounds = tree.rounds(), .steps = {}, .rooted = true};
  const auto round = [&](unsigned bit) { return plan.rounds - 1 - log2_of(bit); };
  if (tree.v == 0)
    plan.encode(0, 0, StepFeedback::carry, 0);
  else
    plan.receive(0, behind_root(ranks, tree.parent()), round(tree.lowest_bit()));
  for (unsigned bit = std::bit_ceil(tree.size) / 2; bit > 0; bit /= 2)
    if (tree.has_child(bit)) plan.send(0, behind_root(ranks, tree.child(bit)), round(bit));
  plan.decode(0, 0, 0);
  return plan;
}

// Scatter and allgather (van de Geijn, SC 1994), of wires: chunk c goes from the root to rank c + 1, which
// sends it on to the others unchanged. Two rounds. The root sends w in P-1 messages, each other rank
// (P-2)/(P-1) w in P-2 messages. P-1 slots: slot c holds the wire of chunk c.
Plan make_bcast_spread(const Ranks& ranks) {
  const int others = ranks.size - 1, own = places_behind_root(ranks) - 1;
  Plan plan{.chunks = others, .slots = others, .rounds = 2, .steps = {}, .rooted = true};
  const auto rank_of = [&](int chunk) { return behind_root(ranks, chunk + 1); };
  if (own < 0) {
    for (int c = 0; c < others; ++c) {
      plan.encode(c, c, StepFeedback::carry, 0);
      plan.send(c, rank_of(c), 0);
    }
    for (int c = 0; c < others; ++c) plan.decode(c, c, 0);
    return plan;
  }
  plan.receive(own, ranks.root, 0);
  const auto from = [&](int s) { return (own - s + others) % others; };
  for (int s = 1; s < others; ++s)
    plan.exchange(own, rank_of((own + s) % others), from(s), rank_of(from(s)), 1);
  for (int s = 0; s < others; ++s) plan.decode(from(s), from(s), 0);
  return plan;
}

// The tree of a broadcast upwards. A rank adds what its children send, from the nearest to the farthest, to
// its own elements, and sends C(sum) to its parent. log2 P rounds; all but the root send w; the root receives
// at most log2 P w and encodes nothing: with Ranks::carries_own it adds its residual by raw steps. Between
// two ranks the root gets the other's vector with one loss. Slot k is received into from child 2^k; the last
// one holds this rank's wire, and what the root does with its own elements, if anything.
Plan make_reduce_tree(const Ranks& ranks) {
  const Tree tree(ranks);
  const bool is_root = tree.v == 0, is_leaf = !tree.has_child(1);
  int children = 0;
  while (tree.has_child(1U << children)) ++children;
  const bool rounds_own = ranks.encodes_own ? is_root || !is_leaf : is_root && ranks.carries_own;
  Plan plan{.chunks = 1,
            .slots = children + (!is_root || rounds_own),
            .rounds = tree.rounds(),
            .steps = {},
            .has_result = is_root,
            .rooted = true};
  for (int k = 0; k < children; ++k) plan.receive(k, behind_root(ranks, tree.child(1U << k)), k);
  if (rounds_own) round_own(plan, ranks.rank, 0, children, !ranks.encodes_own);
  for (int k = 0; k < children; ++k) plan.decode_add(0, k, behind_root(ranks, tree.child(1U << k)));
  if (is_root) return plan;
  plan.encode(0, children, rounds_own ? StepFeedback::deposit : StepFeedback::carry, ranks.rank);
  plan.send(children, behind_root(ranks, tree.parent()), log2_of(tree.lowest_bit()));
  return plan;
}

// The first half of direct, with owners other than the root, and without the root's elements: chunk c belongs
// to rank c + 1. Round 0: each of these ranks sends each other owner C(the owner's chunk). The owner adds
// them to its own elements. Round 1: the owners send C(sum) to the root, which adds it to its own elements.
// So each rank but the root sends w and the root nothing: (P-1) w together, which is the least, because what
// each of them has must leave it. None receives more than w. Two losses, as in direct. The root encodes
// nothing: with Ranks::carries_own it adds its residual by raw steps. 2 (P-1) - 1 slots: P-2 to send from,
// P-2 to receive into and one for the sum. Of the root P-1 to receive into, and one for what it does with its
// own elements, if anything.
Plan make_reduce_owners(const Ranks& ranks) {
  const int others = ranks.size - 1, own = places_behind_root(ranks) - 1, all = ranks.size;
  const bool is_root = own < 0, rounds_own = ranks.encodes_own || (is_root && ranks.carries_own);
  Plan plan{.chunks = others,
            .slots = is_root ? others + rounds_own : 2 * others - 1,
            .rounds = 2,
            .steps = {},
            .has_result = is_root,
            .rooted = true};
  const auto rank_of = [&](int chunk) { return behind_root(ranks, chunk + 1); };
  if (is_root) {
    for (int c = 0; c < others; ++c) plan.receive(c, rank_of(c), 1);
    for (int c = 0; c < others; ++c) {
      if (rounds_own) round_own(plan, ranks.rank, c, others, !ranks.encodes_own);
      plan.decode_add(c, c, all);
    }
    return plan;
  }
  const auto to = [&](int s) { return (own + s) % others; };
  const auto from = [&](int s) { return (own - s + others) % others; };
  const auto recv_slot = [&](int s) { return others - 1 + s - 1; };
  const int sum_slot = 2 * others - 2;
  for (int s = 1; s < others; ++s) {
    plan.encode(to(s), s - 1, StepFeedback::carry, ranks.rank);
    plan.exchange(s - 1, rank_of(to(s)), recv_slot(s), rank_of(from(s)), 0);
  }
  if (rounds_own) round_own(plan, ranks.rank, own, sum_slot);
  for (int source = 0; source < others; ++source)
    if (source != own) plan.decode_add(own, recv_slot((own - source + others) % others), rank_of(source));
  plan.encode(own, sum_slot, ranks.encodes_own ? StepFeedback::deposit : StepFeedback::carry, all);
  plan.send(sum_slot, ranks.root, 1);
  return plan;
}

constexpr PlanRow kBcastTree{
    "bcast_tree", 34, "the root's encoded vector down a tree: log2 P rounds, at most log2 P vectors sent",
    make_bcast_tree};
constexpr PlanRow kBcastSpread{
    "bcast_spread", 35,
    "encoded slices of the root's vector to a rank each, and from there to all: 1 vector sent",
    make_bcast_spread};

constexpr PlanRow kReduceTree{
    "reduce_tree", 36,
    "encoded partial sums up a tree, re-encoded by each rank: log2 P rounds, 1 vector sent",
    make_reduce_tree};
constexpr PlanRow kReduceOwners{
    "reduce_owners", 37,
    "encoded slices to their owners, who add them, and the encoded sums to the root: 1 vector sent",
    make_reduce_owners};

// A tree needs few messages, but the root of a broadcast then sends log2 P vectors w. The root of a spread
// sends one, in P-1 messages. By cost.hpp both take the same time where the bytes that the spread saves,
// (log2 P - 1) w, take as long as its messages. That is near these numbers on networks where a message costs
// as much as 4 to 5 KB of its bytes; tests/plan/rooted_plan_test.cpp compares the times. A reduction sends
// the messages of a broadcast backwards, so the same numbers serve.
constexpr std::uint64_t kTreeBytes = 8 << 10, kTreeBytesOfRank = 1 << 10;

bool takes_tree(std::uint64_t encoded_bytes, int ranks) {
  return ranks <= 2 ||
         encoded_bytes < std::max(kTreeBytes, kTreeBytesOfRank * static_cast<std::uint64_t>(ranks));
}

}  // namespace

const PlanRow& choose_bcast(std::uint64_t encoded_bytes, int ranks) noexcept {
  return takes_tree(encoded_bytes, ranks) ? kBcastTree : kBcastSpread;
}
const PlanRow& choose_reduce(std::uint64_t encoded_bytes, int ranks) noexcept {
  return takes_tree(encoded_bytes, ranks) ? kReduceTree : kReduceOwners;
}

}  // namespace mq
