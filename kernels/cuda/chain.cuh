// Finds where each thread block writes its part, in one launch. Each block publishes the length of its own
// part. Then it looks back over its predecessors until it finds one whose end is known (Merrill, Garland:
// Single-pass parallel prefix scan with decoupled look-back, NVIDIA technical report 2016). Parts are
// numbered by a ticket, so a block only waits for blocks that have already started, whatever the order in
// which blocks start.
#pragma once

#include "kernels/cuda/simt.cuh"

namespace mq::simt {

// A link is 0, or its upper two bits say what the other bits are.
inline constexpr std::uint64_t kOwnLength = std::uint64_t{1} << 62, kEnd = std::uint64_t{2} << 62;

// Returns the next number. All threads of the block must call it.
MQ_DEVICE std::uint32_t take_ticket(std::uint32_t* next) {
  auto& mine = shared<std::uint32_t, 100>();
  if (thread() == 0) mine = atomic_add(next, 1);
  barrier();
  return mine;
}

// Called by one thread, as soon as the length is known.
MQ_DEVICE void publish_length(std::uint64_t* links, std::uint32_t number, std::uint64_t length) {
  store_release(links + number, (number == 0 ? kEnd : kOwnLength) | length);
}

// Returns the total length of the parts before, and then publishes the end of this part. Called by one whole
// warp. It polls without fences, because a fence for each poll would empty the multiprocessor's cache, which
// other blocks still use.
MQ_DEVICE std::uint64_t lengths_before(std::uint64_t* links, std::uint32_t number, std::uint64_t length) {
  std::uint64_t sum = 0;
  for (std::uint32_t next = number; next > 0;) {
    const std::uint64_t link = lane() < next ? load_relaxed(links + (next - 1 - lane())) : kEnd;
    const std::uint32_t ends = ballot(link >= kEnd), empty = ballot(link == 0);
    const std::uint32_t last = ends != 0 ? count_trailing_zeros(ends) : 31;  // last lane that counts
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
