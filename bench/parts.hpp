// Which part of a vector a rank has in a reduce-scatter or an allgather. The two are the halves of an
// allreduce: the first one gives each rank a part of the sum, the second one gives all ranks the parts of
// all.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mpi_quant/plan/collective.hpp"

namespace mq::bench {

struct Part {
  std::uint64_t begin = 0, count = 0;  // elements of the whole vector
  std::uint64_t end() const { return begin + count; }
};

// The part of a rank. Parts follow each other, and differ in length by at most one element.
inline Part part_of(std::uint64_t count, int ranks, int rank) {
  const auto p = static_cast<std::uint64_t>(ranks), r = static_cast<std::uint64_t>(rank);
  return {count / p * r + std::min(r, count % p), count / p + (r < count % p ? 1 : 0)};
}

// What a rank brings, and what it gets, of a vector of `count` elements.
inline Part input_of(mq::Collective collective, std::uint64_t count, int ranks, int rank) {
  return collective == mq::Collective::allgather ? part_of(count, ranks, rank) : Part{0, count};
}
inline Part output_of(mq::Collective collective, std::uint64_t count, int ranks, int rank) {
  return collective == mq::Collective::reduce_scatter ? part_of(count, ranks, rank) : Part{0, count};
}

// Whether several ranks get the same elements, which must then have the same bits.
constexpr bool has_replicas(mq::Collective collective) {
  return collective != mq::Collective::reduce_scatter;
}

// How many times (P-1)/P of the vector each of P ranks sends, if nothing is compressed and nothing is sent
// in vain.
constexpr int passes_of(mq::Collective collective) { return collective == mq::Collective::allreduce ? 2 : 1; }

}  // namespace mq::bench
