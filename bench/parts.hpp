// Which part of a vector a rank has in each collective. A reduce-scatter and an allgather are the halves of
// an allreduce: the first one gives each rank a part of the sum, the second one gives all ranks the parts of
// all. One rank is the root of a broadcast or a reduction. In a broadcast the others bring nothing, and all
// get the vector. In a reduction all bring one, and the others get nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "mpi_quant/plan/collective.hpp"

namespace mq::bench {

// Those that are measured. Each has a subcommand of mpiq-bench with its name.
inline constexpr std::array kMeasured{mq::Collective::allreduce, mq::Collective::reduce_scatter,
                                      mq::Collective::allgather, mq::Collective::bcast,
                                      mq::Collective::reduce};

inline constexpr int kRoot = 0;  // of a broadcast or a reduction

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
  if (collective == mq::Collective::allgather) return part_of(count, ranks, rank);
  return collective == mq::Collective::bcast && rank != kRoot ? Part{} : Part{0, count};
}
inline Part output_of(mq::Collective collective, std::uint64_t count, int ranks, int rank) {
  if (collective == mq::Collective::reduce_scatter) return part_of(count, ranks, rank);
  return collective == mq::Collective::reduce && rank != kRoot ? Part{} : Part{0, count};
}

// Whether several ranks get the same elements, which must then have the same bits.
constexpr bool has_replicas(mq::Collective collective) {
  return collective != mq::Collective::reduce_scatter && collective != mq::Collective::reduce;
}

// How many times (P-1)/P of the vector P ranks send on average, if nothing is compressed and nothing is sent
// twice.
constexpr int passes_of(mq::Collective collective) { return collective == mq::Collective::allreduce ? 2 : 1; }
// The bytes that the busiest of `ranks` ranks sends or receives then, divided by the bytes of the vector. A
// root has to send, or to receive, the whole vector.
constexpr double busiest_share(mq::Collective collective, double ranks) {
  const bool is_alone = ranks < 2;
  return has_root(collective) && !is_alone ? 1 : passes_of(collective) * (ranks - 1) / ranks;
}

}  // namespace mq::bench
