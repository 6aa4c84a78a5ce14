// Recursive halving and doubling for any number of ranks. It has a file of its own because it alone has
// blocks of ranks.

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

// The steps of one rank. Blocks are numbered from the largest, which has number 0. There are as many chunks
// as that block has ranks. Rank l of a block of b ranks is the block's *gatherer* of the chunks c with c mod
// b = l: it ends up with the block's sum of them.
class HalvingDoubling {
 public:
  explicit HalvingDoubling(const Ranks& ranks) : rank_(ranks.rank), encodes_own_(ranks.encodes_own) {
    for (int left = ranks.size, first = 0; left > 0; left -= blocks_.back().size) {
      const int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(left)));
      blocks_.push_back({first, size});
      if (rank_ >= first) mine_ = static_cast<int>(blocks_.size()) - 1;
      first += size;
    }
    chunks_ = blocks_[0].size;
    local_ = rank_ - block().first;
    summed_.resize(static_cast<std::size_t>(chunks_));
    plan_.chunks = chunks_;
    plan_.rounds = 2 * (log2(chunks_) + between());
  }

  Plan make() {
    for (int bit = 1; bit < block().size; bit *= 2) halve(bit);
    if (!is_smallest()) take_sums(blocks_[index(mine_ + 1)]);
    if (mine_ > 0)
      give_sums(blocks_[index(mine_ - 1)]);
    else
      encode(local_);
    result_slot_.assign(static_cast<std::size_t>(chunks_), send_slot(local_));
    if (mine_ > 0) take_results(blocks_[index(mine_ - 1)]);
    if (!is_smallest()) give_results(blocks_[index(mine_ + 1)]);
    for (int bit = block().size / 2; bit > 0; bit /= 2) double_up(bit);
    if (mine_ == 0) decode(local_);
    for (const int c : results_) decode(c);
    plan_.slots = chunks_ + std::max(sums_received_, static_cast<int>(results_.size()));
    return std::move(plan_);
  }

 private:
  struct Block {
    int first = 0, size = 1;  // ranks
    int gatherer(int chunk) const { return first + chunk % size; }
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static int log2(int size) { return std::countr_zero(static_cast<unsigned>(size)); }
  const Block& block() const { return blocks_[index(mine_)]; }
  bool is_smallest() const { return index(mine_) + 1 == blocks_.size(); }
  int between() const { return static_cast<int>(blocks_.size()) - 1; }  // rounds from block to block, one way

  // Slots: one for what this rank encodes of each chunk. Then those to receive into, in the order of the
  // messages. Results are received into the slots of the sums, which have been added by then.
  int send_slot(int chunk) const { return chunk; }
  int sum_slot() { return chunks_ + sums_received_++; }
  int new_result_slot(int chunk) {
    result_slot_[index(chunk)] = chunks_ + static_cast<int>(results_.size());
    results_.push_back(chunk);
    return result_slot_[index(chunk)];
  }

  // Each rank encodes a chunk once, so its own number names the operand.
  void encode(int chunk) {
    plan_.encode(chunk, send_slot(chunk),
                 encodes_own_ && summed_[index(chunk)] ? StepFeedback::deposit : StepFeedback::carry, rank_);
  }
  void add(int chunk, int slot, int from) {
    if (encodes_own_ && !summed_[index(chunk)]) round_own(plan_, rank_, chunk, send_slot(chunk));
    summed_[index(chunk)] = 1;
    plan_.decode_add(chunk, slot, from);
  }

  // A result is encoded by the rank of the largest block that gathers it.
  void decode(int chunk) { plan_.decode(chunk, result_slot_[index(chunk)], blocks_[0].gatherer(chunk)); }

  // This rank and its partner have sums of 2^k ranks of the same chunks. Each of the two keeps the chunks
  // whose bit k equals bit k of its own number.
  void halve(int bit) {
    const int partner = block().first + (local_ ^ bit), round = log2(bit);
    std::vector<std::pair<int, int>> received;  // chunk, slot
    for (int c = local_ % bit; c < chunks_; c += bit) {
      if (((c ^ local_) & bit) == 0) continue;
      const int kept = c ^ bit;
      received.emplace_back(kept, sum_slot());
      encode(c);
      plan_.exchange(send_slot(c), partner, received.back().second, partner, round);
    }
    for (const auto& [c, slot] : received) add(c, slot, partner);
  }
  // Block i gives its sums to block i - 1 in the round after the rounds of halving and of the smaller blocks.
  int sums_round(int giver) const { return log2(chunks_) + between() - giver; }
  int results_round(int taker) const { return log2(chunks_) + between() + taker - 1; }

  void take_sums(const Block& smaller) {
    std::vector<std::pair<int, int>> received;
    for (int c = local_; c < chunks_; c += block().size) {
      received.emplace_back(c, sum_slot());
      plan_.receive(received.back().second, smaller.gatherer(c), sums_round(mine_ + 1));
    }
    for (const auto& [c, slot] : received) add(c, slot, smaller.gatherer(c));
  }
  void give_sums(const Block& larger) {
    for (int c = local_; c < chunks_; c += block().size) {
      encode(c);
      plan_.send(send_slot(c), larger.gatherer(c), sums_round(mine_));
    }
  }
  void take_results(const Block& larger) {
    for (int c = local_; c < chunks_; c += block().size)
      plan_.receive(new_result_slot(c), larger.gatherer(c), results_round(mine_));
  }
  void give_results(const Block& smaller) {
    for (int c = local_; c < chunks_; c += block().size)
      plan_.send(result_slot_[index(c)], smaller.gatherer(c), results_round(mine_ + 1));
  }
  // The partners swap the results that they have, and then both have all of them.
  void double_up(int bit) {
    const int partner = block().first + (local_ ^ bit);
    const int round = plan_.rounds - 1 - log2(bit);
    for (int c = local_ % bit; c < chunks_; c += bit)
      if (((c ^ local_) & bit) == 0)
        plan_.exchange(result_slot_[index(c)], partner, new_result_slot(c ^ bit), partner, round);
  }

  const int rank_;
  const bool encodes_own_;
  std::vector<Block> blocks_;
  int mine_ = 0, local_ = 0, chunks_ = 1;  // this rank's block, and its number there
  int sums_received_ = 0;
  std::vector<int> results_;      // chunks whose results are received, in the order of the messages
  std::vector<char> summed_;      // by chunk: something was added
  std::vector<int> result_slot_;  // by chunk
  Plan plan_;
};

}  // namespace

// Reduce-scatter by recursive halving and allgather by recursive doubling (Rabenseifner 2004; Thakur,
// Rabenseifner and Gropp 2005). In round k partners whose numbers differ in bit k swap halves: each sends C
// of its partial sums of the chunks that the other keeps, and adds what it gets. So after log2 P rounds rank
// c has the sum of chunk c, encodes it, and replaces its own copy by what the others will decode. Then the
// rounds are run backwards with the encoded sums, which are passed on unchanged.
//
// If P is not a power of two: binary blocks (Rabenseifner and Traeff, EuroPVM/MPI 2004; Goyal et al. 2017,
// section 4). The ranks are cut into blocks of decreasing powers of two, one for each bit of P. Each block
// halves alone. Then the smallest block gives its sums to the next larger one, which adds them to its own,
// and so on to the largest, which gives the results back the same way before each block doubles.
//
// 2 log2 P rounds, and 2(P-1)/P w sent; 2 w at most if P is not a power of two. Each chunk is a frame of its
// own, so there are 2(P-1) messages, P/2 of them in the first round. Encodes n, decodes 2n(P-1)/P + n/P
// elements. An element takes, of each kind, half a loss of every rank's contribution, half a loss of the
// result for each further round of halving, and one of the result. Each loss is kept in the residual of the
// rank that encodes.
//
// 2P-1 slots, as direct. With Ranks::encodes_own a rank encodes and decodes its own part before it adds: n/2
// more of each.
Plan make_halving_doubling(const Ranks& ranks) { return HalvingDoubling(ranks).make(); }

}  // namespace mq
