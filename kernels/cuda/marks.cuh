// Bitmaps on the wire, and the form that meprop and fft give to elements that are not finite: the value that they decode to, and
// a bit for each element. Used by one thread block.
#pragma once

#include "kernels/cuda/sparse_block.cuh"

namespace mq::kernels::cuda {

// Bits of n elements, in shared memory, to the wire and back. After load_bitmap() the threads must meet at a barrier.
MQ_DEVICE void store_bitmap(const Word* words, std::uint32_t n, std::byte* out) {
  for (std::uint32_t i = thread(); i < bitmap_bytes(n); i += threads())
    out[i] = static_cast<std::byte>(words[i / 4] >> (8 * (i % 4)));
}
MQ_DEVICE void load_bitmap(const std::byte* in, std::uint32_t n, Word* words) {
  for (std::uint32_t w = thread(); w < words_of(n); w += threads()) {
    Word bits = 0;
    for (std::uint32_t i = 0; i < 4 && 4 * w + i < bitmap_bytes(n); ++i)
      bits |= static_cast<Word>(in[4 * w + i]) << (8 * i);
    words[w] = bits;
  }
}
MQ_DEVICE bool bit_of(const std::byte* bitmap, std::uint32_t i) {
  return (static_cast<std::uint32_t>(bitmap[i / 8]) >> i % 8 & 1) != 0;
}
// Whether the bits behind the last of n elements are 0.
MQ_DEVICE bool ends_clean(const std::byte* bitmap, std::uint32_t n) {
  return n % 8 == 0 || static_cast<std::uint32_t>(bitmap[n / 8]) >> n % 8 == 0;
}
// How many of n elements have their bit set. Called by a whole warp.
MQ_DEVICE std::uint32_t ones_of(const std::byte* bitmap, std::uint32_t n) {
  std::uint32_t ones = 0;
  for (std::uint32_t i = lane(); i < bitmap_bytes(n); i += 32)
    ones += count_ones(static_cast<std::uint32_t>(bitmap[i]));
  return warp_sum(ones);
}

template <class T>
MQ_DEVICE std::uint32_t marks_bytes(std::uint32_t n) {
  return static_cast<std::uint32_t>(sizeof(T)) + bitmap_bytes(n);
}
// v(i) is element i. All threads must call it.
template <class T, class V>
MQ_DEVICE void write_marks(std::uint32_t n, const V& v, std::byte* out) {
  bool not_above = false, not_below = false;
  for (std::uint32_t w = warp(); w < words_of(n); w += warps()) {
    const std::uint32_t i = 32 * w + lane();
    const T value = i < n ? v(i) : T{0};
    const bool marked = !is_finite(value);
    not_above |= marked && !(value == kInfinity<T>);
    not_below |= marked && !(value == -kInfinity<T>);
    const Word bits = ballot(marked);
    if (lane() < 4 && 4 * w + lane() < bitmap_bytes(n))
      out[sizeof(T) + 4 * w + lane()] = static_cast<std::byte>(bits >> (8 * lane()));
  }
  not_above = barrier_or(not_above);
  not_below = barrier_or(not_below);
  const T mark = mark_of<T>(!not_above, !not_below);
  if (thread() == 0) store<T>(out, mark);
}
// Calls put(i, value) for each element: the mark, or `rest` where no bit is set. False if write_marks() cannot have written it.
template <class T, class Put>
MQ_DEVICE bool read_marks(const std::byte* in, std::uint32_t n, T rest, const Put& put) {
  const T mark = load<T>(in);
  const std::byte* const bitmap = in + sizeof(T);
  if (is_finite(mark) || !ends_clean(bitmap, n)) return false;
  for (std::uint32_t i = thread(); i < n; i += threads()) put(i, bit_of(bitmap, i) ? mark : rest);
  return true;
}

}  // namespace mq::kernels::cuda
