#include "mpi_quant/plan/losses.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

int log2_rounds(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(std::max(ranks, 1) - 1)));
}

// An element loses as much whoever owns it, so one rank stands for all.
Plan of_rank_0(const PlanRow& row, Ranks ranks) {
  ranks.rank = 0;
  ranks.size = std::max(ranks.size, 2);
  return row.make(ranks);
}

// Losses of plans that encode sums of some of the ranks. The vectors of the ranks are taken to be
// independent. Then an encode of a sum of k of P ranks adds k/P of what an encode of the result adds. `ranks`
// is at least 2.
Losses ring_losses(int ranks) {
  const double p = ranks;
  return {1 / p, (p + 1) / 2 - 1 / p};  // sums of 2 to P ranks
}

// Ranks beyond a power of two give their vectors to a partner, which brings the sum of both to the first
// round.
Losses doubling_losses(int ranks) {
  const double p = ranks;
  const int paired = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), beyond = ranks - paired;
  return {paired / p, log2_rounds(paired) - 1 + 2 * beyond / p};
}

Losses halving_losses(int ranks) {
  const double p = ranks;
  Losses losses{0, 1};
  for (int left = ranks; left > 0;) {  // blocks of 2^k ranks, as in plan/halving_doubling.cpp
    const int block = static_cast<int>(std::bit_floor(static_cast<unsigned>(left)));
    if (block > 1) {
      losses.contributions += block / 2 / p;
      losses.aggregate += (log2_rounds(block) - 1) * (block / 2) / p;
    }
    if (left < ranks)
      (left == 1 ? losses.contributions : losses.aggregate) += left / p;  // given to the next block
    left -= block;
  }
  return losses;
}

// Row sums of a grid, each of a part of the ranks, and the result. The owners' parts are in the row sums.
Losses grid_losses(int ranks) {
  const GridShape shape = grid_shape(ranks);
  const double p = ranks;
  if (shape.rows == 1) return {1 - 1 / p, 1};
  const double owners = shape.rows + static_cast<double>(shape.rest) / shape.columns;  // of an element
  const double alone =
      shape.rest == 1 ? 1.0 / shape.columns : 0;  // a row of one rank encodes its own part of one slice
  return {1 - (owners - alone) / p, 2 - alone / p};
}

// A rank of the tree that has ranks below it encodes the sum of theirs and its own.
Losses tree_losses(int ranks) {
  const double p = ranks;
  Losses losses{0, 0};
  for (int v = 1; v < ranks; ++v) {
    const int in_sum = std::min(v & -v, ranks - v);
    (in_sum == 1 ? losses.contributions : losses.aggregate) += in_sum / p;
  }
  return losses;
}

// The owner of a chunk encodes the sum of all ranks but the root.
Losses owners_losses(int ranks) {
  const double p = ranks;
  return {(p - 2) / p, (p - 1) / p};
}

struct Reencoded {
  std::string_view plan;
  Losses (*losses)(int ranks);
};
constexpr Reencoded kReencoded[]{{"recursive_doubling", doubling_losses},
                                 {"ring", ring_losses},
                                 {"halving_doubling", halving_losses},
                                 {"grid", grid_losses},
                                 {"reduce_tree", tree_losses},
                                 {"reduce_owners", owners_losses}};

}  // namespace

// Counted at rank 0. An encode before any decode of its chunk is of a contribution; a later encode is of a
// sum. If a plan has one chunk, all ranks encode a sum again; if it has several, only the owner of the chunk
// does. If a plan adds nothing, each element of the result is encoded once, by the rank that has it. With
// exact sums every element of a rank is encoded as a contribution, and encodes of sums lose
// nothing.
Losses losses_of(const PlanRow& row, const Ranks& ranks) {
  if (ranks.encodes_own) return {1, 0};
  for (const Reencoded& reencoded : kReencoded)
    if (reencoded.plan == row.name) return reencoded.losses(std::max(ranks.size, 2));
  const Plan plan = of_rank_0(row, ranks);
  std::vector<char> decoded(static_cast<std::size_t>(plan.chunks));
  if (std::none_of(plan.steps.begin(), plan.steps.end(),
                   [](const Step& s) { return s.op == Op::decode_add; }))
    return {1, 0};
  int contributions = 0, sums = 0;
  for (const Step& s : plan.steps) {
    char& is_sum = decoded[static_cast<std::size_t>(s.chunk)];
    if (s.op == Op::encode) ++(is_sum ? sums : contributions);
    if (s.op == Op::decode || s.op == Op::decode_add) is_sum = 1;
  }
  if (plan.chunks > 1) return {static_cast<double>(contributions) / plan.chunks, static_cast<double>(sums)};
  return {1, static_cast<double>(sums)};
}

}  // namespace mq
