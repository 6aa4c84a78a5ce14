// Finds where each thread block writes its part, in one launch. Each block publishes the length of its own
// part. Then it looks back over its predecessors until it finds one whose end is known (Merrill, Garland:
// Single-pass parallel prefix scan with decoupled look-back, NVIDIA technical report 2016). Parts are
// numbered by a ticket, so a block only waits for blocks that have already started, whatever the order in
// which blocks start.
#pragma once

#include "kernels/cuda/chain.hpp"
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

// A single block waits for no other, so its state is not even cleared.
MQ_DEVICE std::uint32_t take_block(const kernels::cuda::ChainedArgs& a) {
  return a.blocks == 1 ? 0 : take_ticket(&a.state->ticket);
}
// Call it as soon as the size of the block on the wire is known.
MQ_DEVICE void publish_block(const kernels::cuda::ChainedArgs& a, std::uint32_t number, std::uint32_t bytes) {
  if (thread() == 0 && a.blocks > 1) publish_length(a.state->links(), number, bytes);
}
// Where this block's wire begins. Call it after publish_block, with all threads.
MQ_DEVICE std::byte* own_wire(const kernels::cuda::ChainedArgs& a, std::uint32_t number,
                              std::uint64_t bytes) {
  if (a.blocks == 1) {
    barrier();
    return a.wire;
  }
  auto& before = shared<std::uint64_t, 101>();
  if (warp() == 0) {
    const std::uint64_t sum = lengths_before(a.state->links(), number, bytes);
    if (lane() == 0) before = sum;
    if (lane() == 0 && number + 1 == a.blocks) a.state->bytes = sum + bytes;
  }
  barrier();
  return a.wire + before;
}

// The last block to end writes the result. Called by one thread, after all threads have written.
MQ_DEVICE void end_block(const kernels::cuda::ChainedArgs& a, std::uint32_t bytes, std::uint32_t nonfinite,
                         std::uint32_t overflows = 0) {
  if (a.blocks == 1) {
    *a.encoded = {bytes, nonfinite, overflows};
    return;
  }
  if (overflows > 0) atomic_add(&a.encoded->overflows, std::uint64_t{overflows});
  if (nonfinite > 0) atomic_add(&a.state->nonfinite, std::uint64_t{nonfinite});
  fence();
  if (atomic_add(&a.state->done, 1) + 1 != a.blocks) return;
  fence();
  a.encoded->bytes = load_acquire(&a.state->bytes);
  a.encoded->nonfinite = load_acquire(&a.state->nonfinite);
}

}  // namespace mq::simt

// Resets the tickets and the chain.
MQ_KERNEL(chain_begin, mq::kernels::cuda::ChainBeginArgs, 256) {
  using namespace mq::simt;  // NOLINT: the kernels' language
  const std::uint32_t i = block() * threads() + thread();
  if (i < args.parts) args.state->links()[i] = 0;
  if (i != 0) return;
  *args.state = {0, 0, 0, 0};
  if (args.parts == 0) *args.encoded = {0, 0};
}
