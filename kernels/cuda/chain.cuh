// Where the parts that thread blocks write begin, in one launch: each publishes the length of its own part
// and looks back over those of its predecessors until it finds one that knows its end (Merrill, Garland:
// Single-pass parallel prefix scan with decoupled look-back, NVIDIA technical report 2016). Parts are
// numbered by a ticket, so that whoever is waited for has begun, whatever the order in which blocks are
// started.
#pragma once

#include "kernels/cuda/simt.cuh"

namespace mq::simt {

// A link is 0, or its upper two bits say what the others are.
inline constexpr std::uint64_t kOwnLength = std::uint64_t{1} << 62, kEnd = std::uint64_t{2} << 62;

// The next number. All threads of the block.
MQ_DEVICE std::uint32_t take_ticket(std::uint32_t* next) {
  auto& mine = shared<std::uint32_t, 100>();
  if (thread() == 0) mine = atomic_add(next, 1);
  barrier();
  return mine;
}

// By one thread, as soon as the length is known.
MQ_DEVICE void publish_length(std::uint64_t* links, std::uint32_t number, std::uint64_t length) {
  store_release(links + number, (number == 0 ? kEnd : kOwnLength) | length);
}

// The lengths of the parts before, by one whole warp; then the end of this part is known to others. A fence
// for each look would empty the multiprocessor's cache, under the feet of the blocks that still work.
MQ_DEVICE std::uint64_t lengths_before(std::uint64_t* links, std::uint32_t number, std::uint64_t length) {
  std::uint64_t sum = 0;
  for (std::uint32_t next = number; next > 0;) {
    const std::uint64_t link = lane() < next ? load_relaxed(links + (next - 1 - lane())) : kEnd;
    const std::uint32_t ends = ballot(link >= kEnd), empty = ballot(link == 0);
    const std::uint32_t last = ends != 0 ? count_trailing_zeros(ends) : 31;  // lane to look at
    if ((empty & (kAll >> (31 - last))) != 0) {
      pause();
      continue;
    }
    sum += warp_sum(lane() <= last ? link & (kOwnLength - 1) : std::uint64_t{0});
    if (ends != 0) break;
    next -= 32;
  }
  fence();
  if (lane() == 0 && number > 0) store_release(links + number, kEnd | (sum + length));
  return sum;
}

}  // namespace mq::simt
