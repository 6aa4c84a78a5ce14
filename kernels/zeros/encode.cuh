// Encodes zerorun on a device. The wire equals the host's (host-inl.hpp). The host stops as soon as a
// block would take more than its elements. Here this is checked only before the last group, because the
// counts only grow.
#pragma once

#include "kernels/valued/encode.cuh"

namespace mq::kernels::cuda {

// Like on the host, reads a few groups throughout a block of x. If they contain no zero, the block is sent
// unchanged. All threads must call it.
template <class T>
MQ_DEVICE bool looks_full(const std::byte* x, std::uint32_t n) {
  constexpr std::uint32_t kLooks = 8;
  if (n < kLooks * 32) return false;
  bool zero = false;
  for (std::uint32_t look = warp(); look < kLooks; look += warps()) {
    const std::uint32_t g = (n / 32 - 1) * look / (kLooks - 1);
    zero |= key_of(load<T>(x + (std::size_t{32} * g + lane()) * sizeof(T))) == 0;
  }
  return !barrier_or(zero);
}

template <class T>
struct ZeroCounts {
  std::uint32_t elements, groups, nonfinite;
};
// Sets b.above to the elements that are not all zero bits, and b.marks[w] to the number of non-empty groups
// before word w.
template <class T, bool kNear>
MQ_DEVICE ZeroCounts<T> find_zeros(const Block<T, kNear>& b) {
  std::uint32_t nonfinite = 0;
  b.read([&](std::uint32_t w, std::uint32_t, bool exists, T v) {
    const Word bits = ballot(exists && key_of(v) != 0);
    nonfinite += exists && !is_finite(v);
    if (lane() == 0) b.above[w] = bits;
  });
  const Owned own(b.words);
  std::uint64_t count = 0, all;  // elements, plus 2^32 per group
  for (std::uint32_t w = own.begin; w < own.end; ++w)
    count += count_ones(b.above[w]) + (b.above[w] != 0 ? std::uint64_t{1} << 32 : 0);
  auto groups = static_cast<std::uint32_t>(block_before(count, all) >> 32);
  for (std::uint32_t w = own.begin; w < own.end; ++w) {
    b.marks[w] = groups;
    groups += b.above[w] != 0;
  }
  return {static_cast<std::uint32_t>(all), static_cast<std::uint32_t>(all >> 32), block_sum(nonfinite)};
}

template <class T, bool kNear>
MQ_DEVICE void encode_zeros(const SparseEncodeArgs& a) {
  constexpr auto kSize = static_cast<std::uint32_t>(sizeof(T));
  const Block<T, kNear> b(a, take_block(a));
  const bool full = looks_full<T>(b.x, b.n);
  const ZeroCounts<T> found = find_zeros(b);
  const std::uint32_t all = b.n * kSize, head = top_bytes(b.n);
  const Word last = b.above[b.words - 1];
  const std::uint32_t count_before = found.elements - count_ones(last),
                      groups_before = found.groups - (last != 0);
  const bool sparse = !full && head + (count_before + 32) * kSize + (groups_before + 1) * 4 <= all;
  const std::uint32_t count = sparse ? found.elements : b.n;
  const std::uint32_t length = 4 + (sparse ? head + count * kSize + found.groups * 4 : all);
  publish_block(a, b.number, length);
  rank_words(b);
  auto* const stage = reinterpret_cast<std::uint32_t*>(b.pool);
  if (thread() == 0) stage[0] = count;
  for (std::uint32_t w = 32 * warp(); w < b.words; w += 32 * warps()) {
    const Word tops = ballot(w + lane() < b.words && b.above[w + lane()] != 0);
    if (lane() == 0) stage[1 + w / 32] = tops;
  }
  std::byte* to = own_wire(a, b.number, length);
  copy_out(to, b.pool, sparse ? 4 + head : 4);
  barrier();
  to += 4;
  if (sparse) {
    put_ranked<T>(
        b, count, a.pool_bytes, [&](std::uint32_t i) { return b.v(i); }, to + head);
    for (std::uint32_t w = thread(); w < b.words; w += threads())
      if (b.above[w] != 0) stage[b.marks[w]] = b.above[w];
    barrier();
    copy_out(to + head + std::size_t{count} * kSize, b.pool, 4 * found.groups);
  } else if constexpr (kNear) {
    copy_out(to, dynamic_shared(), all);
  } else {
    put_full(b, a.pool_bytes, true, to);
  }
  barrier();
  if (b.feedback == Feedback::carry)
    for (std::uint32_t i = thread(); i < b.n; i += threads()) b.set_residual(i, T{0});
  barrier();
  if (thread() == 0) end_block(a, length, found.nonfinite);
}

}  // namespace mq::kernels::cuda
