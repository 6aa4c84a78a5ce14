// The ring: partial sums go from neighbour to neighbour. It has a file of its own because it alone uses its
// slots again and again.

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

// Hop h is sent from slot h mod 3 and received into slot h + 1 mod 3. So a rank can receive while it works on
// one frame and sends another. It waits for its right neighbour only if that one is two hops behind.
constexpr int kSlots = 3;

}  // namespace

// The bucket algorithm (Barnett et al., Supercomputing 1994; Patarasuk and Yuan, JPDC 2009; Goyal et al.
// 2017, section 4). Slice c of the vector begins at rank c + 1 and goes round the ring to rank c, its owner.
// Each rank on the way adds what it decodes to its own part, encodes the partial sum, and passes it on. The
// owner encodes the sum of all, replaces its own copy by what the others will decode, and the encoded sum
// goes round unchanged.
//
// 2(P-1) messages, each to the right neighbour, and 2(P-1)/P w sent. Encodes n, decodes 2n(P-1)/P + n/P
// elements. An element takes P losses, of growing partial sums. Each is kept in the residual of the rank that
// encodes. So the plan suits codecs that lose nothing or little, and networks where only neighbours are
// close.
//
// 3 slots however many ranks there are, where direct has 2P-1, but P-1 accumulators, where direct has one.
// With Ranks::encodes_own every rank but the first on the way encodes and decodes its own part before it
// adds: 1 - 1/P n more of each.
Plan make_ring(const Ranks& ranks) {
  const int rank = ranks.rank, size = ranks.size, hops = 2 * (size - 1);
  Plan plan{.chunks = size, .slots = kSlots, .rounds = hops, .steps = {}};
  const int right = (rank + 1) % size, left = (rank - 1 + size) % size;
  // The chunk that this rank sends in a hop, and has received in the hop before.
  const auto chunk = [&](int hop) { return (rank - 1 - hop + 2 * size) % size; };
  const auto slot = [](int hop) { return hop % kSlots; };
  const auto exchange = [&](int hop) { plan.exchange(slot(hop), right, slot(hop + 1), left, hop); };

  for (int hop = 0; hop < size; ++hop) {
    if (hop > 0) {
      if (ranks.encodes_own) round_own(plan, rank, chunk(hop), slot(hop + 1));
      plan.decode_add(chunk(hop), slot(hop), left);
    }
    plan.encode(chunk(hop), slot(hop),
                hop > 0 && ranks.encodes_own ? StepFeedback::deposit : StepFeedback::carry, rank);
    exchange(hop);
  }
  // Hop P-1 has sent the sum of all of this rank's own chunk. What comes from now on is sums of all.
  for (int hop = size - 1; hop <= hops; ++hop) {
    if (hop >= size && hop < hops) exchange(hop);
    plan.decode(chunk(hop), slot(hop), chunk(hop));
  }
  return plan;
}

}  // namespace mq
