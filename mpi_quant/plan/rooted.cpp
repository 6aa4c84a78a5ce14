// The plans of collectives with a root, which alone has the input or gets the result. In each, rank v of the
// comments is the rank v places behind the root; so the root is rank 0 there.

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
  Plan plan{.chunks = 1, .slots = 1, .rounds = tree.rounds(), .steps = {}};
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
  Plan plan{.chunks = others, .slots = others, .rounds = 2, .steps = {}};
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

constexpr PlanRow kBcastTree{
    "bcast_tree", 34, "the root's encoded vector down a tree: log2 P rounds, at most log2 P vectors sent",
    make_bcast_tree};
constexpr PlanRow kBcastSpread{
    "bcast_spread", 35,
    "encoded slices of the root's vector to a rank each, and from there to all: 1 vector sent",
    make_bcast_spread};

// A tree needs few messages, but its root sends log2 P vectors w, and that of a spread one, in P-1 messages.
// By cost.hpp both take the same time where the bytes that the spread saves, (log2 P - 1) w, take as long as
// its messages. That is near these numbers on networks where a message costs as much as 4 to 5 KB of its
// bytes; tests/plan/rooted_plan_test.cpp compares the times.
constexpr std::uint64_t kTreeBytes = 8 << 10, kTreeBytesOfRank = 1 << 10;

bool takes_tree(std::uint64_t encoded_bytes, int ranks) {
  return ranks <= 2 ||
         encoded_bytes < std::max(kTreeBytes, kTreeBytesOfRank * static_cast<std::uint64_t>(ranks));
}

}  // namespace

const PlanRow& choose_bcast(std::uint64_t encoded_bytes, int ranks) noexcept {
  return takes_tree(encoded_bytes, ranks) ? kBcastTree : kBcastSpread;
}

}  // namespace mq
