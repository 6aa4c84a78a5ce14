// The plans of collectives in which parts of the vector belong to ranks: chunk p is of part p. They are apart
// from the plans of an allreduce, because a method cannot name them.

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

// The first half of direct. Everyone sends each owner C(the owner's part). The owner adds what it receives to
// its own part, which is not encoded, in rank order. P-1 messages, (P-1)/P w sent; encodes and decodes
// n(P-1)/P elements. Each element takes one loss, in the residual of the rank that sends it.
//
// 2(P-1) slots: P-1 to send from, and P-1 to receive into. One more for what the owner does with its own
// part: with Ranks::encodes_own it encodes and decodes it; with Ranks::carries_own it adds the residual to
// it, by raw steps, which lose nothing.
Plan make_reduce_scatter(const Ranks& ranks) {
  const int rank = ranks.rank, size = ranks.size;
  const bool has_own = ranks.encodes_own || ranks.carries_own;
  Plan plan{.chunks = size, .slots = 2 * (size - 1) + has_own, .rounds = 1, .steps = {}};
  const auto to = [&](int s) { return (rank + s) % size; };
  const auto from = [&](int s) { return (rank - s + size) % size; };
  const auto send_slot = [](int s) { return s - 1; };
  const auto recv_slot = [&](int s) { return size - 1 + s - 1; };
  const int own_slot = 2 * (size - 1);

  for (int s = 1; s < size; ++s) {
    plan.encode(to(s), send_slot(s), StepFeedback::carry, rank);
    plan.exchange(send_slot(s), to(s), recv_slot(s), from(s), 0);
  }
  if (has_own) round_own(plan, rank, rank, own_slot, !ranks.encodes_own);
  for (int source = 0; source < size; ++source)
    if (source != rank) plan.decode_add(rank, recv_slot((rank - source + size) % size), source);
  return plan;
}

// Everyone encodes its part once and sends the wire to everyone. All ranks decode it, the sender as well, so
// that all hold the same bits. P-1 messages, (P-1)/P w sent; encodes n/P, decodes n elements. P slots: slot q
// holds the wire of rank q. A part is the operand of one encode, whose Step::sum is the rank.
Plan make_allgather(const Ranks& ranks) {
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
constexpr PlanRow kReduceScatter{
    "reduce_scatter", 32, "encoded parts to their owners, who add them: P-1 messages, (P-1)/P vectors sent",
    make_reduce_scatter};

constexpr PlanRow kAllgather{
    "allgather", 33, "every encoded part to every rank: P-1 messages, P-1 parts sent", make_allgather};

}  // namespace

const PlanRow* plan_of(Collective collective) noexcept {
  switch (collective) {
    case Collective::allreduce: return nullptr;
    case Collective::reduce_scatter: return &kReduceScatter;
    case Collective::allgather: return &kAllgather;
  }
  return nullptr;
}

}  // namespace mq
