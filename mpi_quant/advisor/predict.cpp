#include "mpi_quant/advisor/predict.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/plan/layout.hpp"

namespace mq {
namespace {

int log2_rounds(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(std::max(ranks, 1) - 1)));
}

// Rank 0 has the most work in every plan. In direct, allgather and ring all ranks have the same work. In recursive
// doubling rank 0 also serves a rank beyond the power of two, and in halving_doubling one of the next smaller block.
Plan of_rank_0(const PlanRow& row, Ranks ranks) {
  ranks.rank = 0;
  ranks.size = std::max(ranks.size, 2);
  return row.make(ranks);
}

// Losses of plans that encode sums of some of the ranks. The error of such a sum is taken to be its share of the ranks
// times that of the result, as if what the ranks bring were independent. `ranks` is at least 2.
Losses ring_losses(int ranks) {
  const double p = ranks;
  return {1 / p, (p + 1) / 2 - 1 / p};  // sums of 2 to P ranks
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

struct Reencoded {
  std::string_view plan;
  Losses (*losses)(int ranks);
};
constexpr Reencoded kReencoded[]{{"ring", ring_losses}, {"halving_doubling", halving_losses}};

}  // namespace

PlanWork work_of(const PlanRow& row, const Ranks& ranks) {
  const Plan plan = of_rank_0(row, ranks);
  PlanWork work;
  work.chunks = plan.chunks;
  const double chunk = 1.0 / plan.chunks;  // the slices of a chunk are nearly equal
  int sent = 0, received = 0;
  std::set<int> rounds;
  for (const Step& s : plan.steps) {
    if (s.op == Op::encode) work.encoded += chunk;
    if (s.op == Op::decode || s.op == Op::decode_add) work.decoded += chunk;
    if (s.op != Op::exchange) continue;
    sent += s.to != kNobody;
    received += s.from != kNobody;
    rounds.insert(s.round);
  }
  work.rounds = static_cast<int>(rounds.size());
  work.messages = std::max(sent, received);
  work.moved = work.messages * chunk;
  return work;
}

// Counted at rank 0. An encode before any decode of its chunk is of a contribution; a later encode is of a
// sum. If a plan has one chunk, all ranks encode a sum again; if it has several, only the owner of the chunk
// does. With exact sums every element of a rank is encoded as a contribution, and encodes of sums lose nothing.
Losses losses_of(const PlanRow& row, const Ranks& ranks) {
  if (ranks.encodes_own) return {1, 0};
  for (const Reencoded& reencoded : kReencoded)
    if (reencoded.plan == row.name) return reencoded.losses(std::max(ranks.size, 2));
  const Plan plan = of_rank_0(row, ranks);
  std::vector<char> decoded(static_cast<std::size_t>(plan.chunks));
  int contributions = 0, sums = 0;
  for (const Step& s : plan.steps) {
    char& is_sum = decoded[static_cast<std::size_t>(s.chunk)];
    if (s.op == Op::encode) ++(is_sum ? sums : contributions);
    if (s.op == Op::decode || s.op == Op::decode_add) is_sum = 1;
  }
  if (plan.chunks > 1) return {static_cast<double>(contributions) / plan.chunks, static_cast<double>(sums)};
  // If there is a rank beyond the power of two, rank 0 has added that rank's vector before its own first
  // encode.
  return {1, static_cast<double>(contributions + sums - 1)};
}

double predict(const PlanRow& plan, const Ranks& ranks, std::size_t count, kernels::Element element,
               const CodecRates& rates, const LinkModel& link) {
  const PlanWork work = work_of(plan, ranks);
  const double n = static_cast<double>(count);
  const std::size_t bytes = kernels::element_bytes(element), chunks = static_cast<std::size_t>(work.chunks);
  const double segment = static_cast<double>(chunk_bytes(count, chunks, bytes) / bytes * chunks);
  const double headers = static_cast<double>(sizeof(FrameHeader)) * work.messages * std::ceil(n / segment);
  const double codec =
      n * (work.encoded * rates.encode_s + work.decoded * rates.decode_s + 2 * rates.memory_s);
  const double wire = link.beta_s * (n * work.moved * rates.wire_bytes + headers);
  const double fill = std::min(codec, wire) * std::min(1.0, segment / std::max(n, 1.0));
  return link.alpha_s * (work.rounds + log2_rounds(ranks.size)) + n * rates.measure_s +
         std::max(codec, wire) + fill;
}

double predict_dense(double bytes, int ranks, const LinkModel& link) {
  const double p = std::max(ranks, 2);
  return 2 * log2_rounds(ranks) * link.alpha_s + 2 * (p - 1) / p * bytes * link.beta_s;
}

}  // namespace mq
