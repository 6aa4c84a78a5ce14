// The plans of collectives in which parts of the vector belong to ranks: chunk p is of part p. They are apart
// from the plans of an allreduce, because a method cannot name them.

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

// The first half of direct. P-1 messages, (P-1)/P w sent; encodes and decodes n(P-1)/P elements. Each element
// takes one loss, in the residual of the rank that sends it.
Plan make_parted_reduce_scatter(const Ranks& ranks) {
  const int size = ranks.size;
  const bool has_own = ranks.encodes_own || ranks.carries_own;
  Plan plan{.chunks = size, .slots = 2 * (size - 1) + has_own, .rounds = 1, .steps = {}};
  sum_at_owners(plan, ranks);
  return plan;
}

// Everyone encodes its part once and sends the wire to everyone. All ranks decode it, the sender as well, so
// that all hold the same bits. P-1 messages, (P-1)/P w sent; encodes n/P, decodes n elements. P slots: slot q
// holds the wire of rank q. A part is the operand of one encode, whose Step::sum is the rank.
Plan make_parted_allgather(const Ranks& ranks) {
  const int rank = ranks.rank, size = ranks.size;
  Plan plan{.chunks = size, .slots = size, .rounds = 1, .steps = {}};
  const auto from = [&](int s) { return (rank - s + size) % size; };
  plan.encode(rank, rank, StepFeedback::carry, rank);
  for (int s = 1; s < size; ++s) plan.exchange(rank, (rank + s) % size, from(s), from(s), 0);
  plan.decode(rank, rank, rank);
  for (int s = 1; s < size; ++s) plan.decode(from(s), from(s), from(s));
  return plan;
}

// From 32 on: the numbers below are for the plans that methods name.
constexpr PlanRow kPartedReduceScatter{
    "reduce_scatter", 32, "encoded parts to their owners, who add them: P-1 messages, (P-1)/P vectors sent",
    make_parted_reduce_scatter};

constexpr PlanRow kPartedAllgather{
    "allgather", 33, "every encoded part to every rank: P-1 messages, P-1 parts sent", make_parted_allgather};

}  // namespace

const PlanRow* plan_of(Collective collective, std::uint64_t encoded_bytes, int ranks) noexcept {
  switch (collective) {
    case Collective::allreduce: return nullptr;
    case Collective::reduce_scatter: return &kPartedReduceScatter;
    case Collective::allgather: return &kPartedAllgather;
    case Collective::bcast: return &choose_bcast(encoded_bytes, ranks);
    case Collective::reduce: return &choose_reduce(encoded_bytes, ranks);
  }
  return nullptr;
}

}  // namespace mq
