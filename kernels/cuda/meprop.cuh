// meprop on a GPU: the device twin of codecs/meprop-inl.hpp. A thread block codes a block of lines. The sum of squares of a line is
// that of the host's 32 lanes, so a warp adds it.
#pragma once

#include "kernels/cuda/marks.cuh"
#include "kernels/cuda/meprop.hpp"
#include "kernels/cuda/sparse_walk.cuh"

namespace mq::kernels::cuda {

#include "kernels/codecs/meprop_format-inl.hpp"

// The lines of a block that are sent.
template <class T>
struct SentLines {
  Key<T> norm[kMostLines];  // of a number that is not negative
  std::uint32_t bits[kMostLines / 32];
  std::uint16_t line[kMostLines];  // the lines that are sent, ascending
  std::uint32_t count;

  MQ_DEVICE bool has(std::uint32_t i) const { return (bits[i / 32] >> (i % 32) & 1) != 0; }
  MQ_DEVICE std::uint32_t rank(std::uint32_t i) const {
    std::uint32_t before = count_ones(bits[i / 32] & lanes_below(i % 32));
    for (std::uint32_t w = 0; w < i / 32; ++w) before += count_ones(bits[w]);
    return before;
  }
  // Once the bits are set. All threads must call it.
  MQ_DEVICE void list(std::uint32_t lines) {
    for (std::uint32_t i = thread(); i < lines; i += threads())
      if (has(i)) line[rank(i)] = static_cast<std::uint16_t>(i);
    std::uint32_t ones = 0;
    for (std::uint32_t i = thread(); i < words_of(lines); i += threads()) ones += count_ones(bits[i]);
    ones = block_sum(ones);
    if (thread() == 0) count = ones;
    barrier();
  }
};

MQ_DEVICE std::uint32_t lines_of(std::uint32_t n, std::uint32_t line) { return n / line + (n % line != 0); }
// The elements of the lines that are sent. The last line may be shorter.
template <class T>
MQ_DEVICE std::uint32_t sent_elements_of(const SentLines<T>& s, std::uint32_t n, std::uint32_t line) {
  const std::uint32_t lines = lines_of(n, line);
  return s.count * line - (lines > 0 && s.has(lines - 1) ? lines * line - n : 0);
}

template <class T>
struct MePropEncoder {
  const std::byte* x;
  std::byte* residual;
  const Feedback feedback;
  const std::uint32_t n, line, lines, most;
  SentLines<T>& s;

  MQ_DEVICE MePropEncoder(const MePropEncodeArgs& a, std::uint32_t number, SentLines<T>& lines_sent)
      : x(a.x + std::uint64_t{number} * a.block * sizeof(T)),
        residual(a.feedback == Feedback::none ? nullptr
                                              : a.residual + std::uint64_t{number} * a.block * sizeof(T)),
        feedback(a.feedback),
        n(static_cast<std::uint32_t>(smaller<std::uint64_t>(a.block, a.n - std::uint64_t{number} * a.block))),
        line(a.line),
        lines(lines_of(n, line)),
        most(a.most[n < a.block]),
        s(lines_sent) {}

  // With carry, v has replaced the residual.
  MQ_DEVICE T v(std::uint32_t i) const {
    return load<T>((feedback == Feedback::carry ? residual : x) + std::size_t{i} * sizeof(T));
  }
  MQ_DEVICE void set_residual(std::uint32_t i, T value) const {
    store<T>(residual + std::size_t{i} * sizeof(T), value);
  }
  // Reads the block. Returns the number of elements that are not finite, and the greatest magnitude of the others.
  MQ_DEVICE std::uint32_t read(Key<T>& greatest) const {
    struct Both {
      T x, r;
    };
    const bool carry = feedback == Feedback::carry;
    std::uint32_t nonfinite = 0;
    greatest = 0;
    in_batches<4>(
        thread(), n, threads(),
        [&](std::uint32_t i) -> Both {
          const std::size_t at = std::size_t{i} * sizeof(T);
          return {load<T>(x + at), carry ? load<T>(residual + at) : T{0}};
        },
        [&](std::uint32_t i, Both e) {
          if (carry) e.x = sum_of(e.x, e.r);
          if (carry) set_residual(i, e.x);
          const Key<T> key = key_of(e.x) & ~kSignBit<T>;
          if (finite_key<T>(key))
            greatest = greater(greatest, key);
          else
            ++nonfinite;
        });
    greatest = block_max(greatest);
    return block_sum(nonfinite);
  }
  // 2^-e, where 2^e is the power of two of the greatest magnitude, within limits.
  static MQ_DEVICE T scale_for(Key<T> greatest) {
    constexpr int kLimit = std::numeric_limits<T>::max_exponent - 2;
    if (greatest == 0) return T{1};
    int exponent = static_cast<int>(greatest >> kMantissaBits<T>) - (kLimit + 1);
    exponent = exponent < -kLimit ? -kLimit : exponent > kLimit ? kLimit : exponent;
    return bits_as<T>(static_cast<Key<T>>(kLimit + 1 - exponent) << kMantissaBits<T>);
  }
  MQ_DEVICE void measure(Key<T> greatest) const {
    const T scale = scale_for(greatest);
    for (std::uint32_t i = warp(); i < lines; i += warps()) {
      const std::uint32_t begin = i * line, end = smaller(begin + line, n);
      T sum{0};
      for (std::uint32_t e = begin + lane(); e < end; e += 32) {
        const T scaled = v(e) * scale;
        sum = sum + scaled * scaled;
      }
      auto total = static_cast<double>(sum);
      for (std::uint32_t d = 16; d > 0; d /= 2) total += shuffle_down(total, d);
      if (lane() == 0) s.norm[i] = key_of(static_cast<T>(total));
    }
    barrier();
  }
  // The `most` lines with the greatest norms, or those that are not 0 if there are fewer. Ties: the first ones.
  MQ_DEVICE void choose() const {
    for (std::uint32_t w = warp(); w < words_of(lines); w += warps()) {
      const std::uint32_t i = 32 * w + lane();
      bool sent = i < lines;
      if (sent && most < lines) {
        const Key<T> own = s.norm[i];
        std::uint32_t before = 0;
        for (std::uint32_t j = 0; j < lines; ++j) before += s.norm[j] > own || (s.norm[j] == own && j < i);
        sent = own > 0 && before < most;
      }
      const Word bits = ballot(sent);
      if (lane() == 0) s.bits[w] = bits;
    }
    barrier();
    s.list(lines);
  }
  MQ_DEVICE void choose_none() const {
    for (std::uint32_t w = thread(); w < words_of(lines); w += threads()) s.bits[w] = 0;
    barrier();
  }
  MQ_DEVICE void write_lines(std::byte* out) const {
    store_bitmap(s.bits, lines, out);
    out += bitmap_bytes(lines);
    in_batches<4>(
        thread(), sent_elements_of(s, n, line), threads(),
        [&](std::uint32_t e) { return v(s.line[e / line] * line + e % line); },
        [&](std::uint32_t e, T value) { store<T>(out + std::size_t{e} * sizeof(T), value); });
  }
  // What is sent leaves the residual; all else stays.
  MQ_DEVICE void keep(bool has_marks) const {
    if (feedback == Feedback::none) return;
    if (feedback == Feedback::carry) {
      if (has_marks) {
        for (std::uint32_t i = thread(); i < n; i += threads())
          if (!is_finite(v(i))) set_residual(i, T{0});
      } else {
        for (std::uint32_t e = thread(); e < sent_elements_of(s, n, line); e += threads())
          set_residual(s.line[e / line] * line + e % line, T{0});
      }
      return;
    }
    for (std::uint32_t i = thread(); i < n; i += threads()) {
      const T value = v(i), lost = !is_finite(value) || s.has(i / line) ? T{0} : value;
      set_residual(i, deposited(load<T>(residual + std::size_t{i} * sizeof(T)), lost));
    }
  }
};

template <class T>
MQ_DEVICE void encode_meprop(const MePropEncodeArgs& a) {
  auto& s = *reinterpret_cast<SentLines<T>*>(dynamic_shared());
  const std::uint32_t number = take_block(a);
  const MePropEncoder<T> e(a, number, s);
  Key<T> greatest;
  const std::uint32_t nonfinite = e.read(greatest);
  std::uint32_t bytes = 4;
  if (nonfinite == 0) {
    e.measure(greatest);
    e.choose();
    bytes += bitmap_bytes(e.lines) + sent_elements_of(s, e.n, e.line) * static_cast<std::uint32_t>(sizeof(T));
  } else {
    e.choose_none();
    bytes += marks_bytes<T>(e.n);
  }
  publish_block(a, number, bytes);
  std::byte* const wire = own_wire(a, number, bytes);
  const std::uint32_t format = nonfinite == 0 ? kLines : a.keeps ? kKept : kLost;
  if (thread() < 4) wire[thread()] = static_cast<std::byte>(format >> (8 * thread()));
  if (nonfinite == 0)
    e.write_lines(wire + 4);
  else
    write_marks<T>(
        e.n, [&](std::uint32_t i) { return e.v(i); }, wire + 4);
  barrier();
  e.keep(nonfinite > 0);
  barrier();
  if (thread() == 0) end_block(a, bytes, nonfinite);
}

// For the walk. What is sent is counted by a warp.
template <class T>
struct MePropLength {
  std::uint32_t line;
  MQ_DEVICE std::uint32_t head(std::uint32_t n) const { return 4 + bitmap_bytes(lines_of(n, line)); }
  MQ_DEVICE std::uint64_t of(const std::byte* p, std::uint64_t left, std::uint32_t n,
                             std::uint32_t most) const {
    if (left < 4) return 0;
    const std::uint32_t format = near_word(p), lines = lines_of(n, line), top = bitmap_bytes(lines);
    left -= 4;
    if (format > kLost) return 0;
    std::uint64_t bytes = marks_bytes<T>(n);
    if (format == kLines) {
      if (left < top || !ends_clean(p + 4, lines)) return 0;
      const std::uint32_t sent = ones_of(p + 4, lines);
      if (sent > most) return 0;
      const bool has_end = bit_of(p + 4, lines - 1);
      const std::uint64_t elements =
          std::uint64_t{sent} * line - (has_end ? std::uint64_t{lines} * line - n : 0);
      bytes = top + elements * sizeof(T);
    }
    return bytes <= left ? 4 + bytes : 0;
  }
};

template <class T>
struct MePropDecoder {
  const std::byte *wire, *base;
  std::byte* x;
  const std::uint32_t n, line;

  MQ_DEVICE MePropDecoder(const MePropDecodeArgs& a, std::uint64_t offset)
      : wire(a.wire + offset),
        base(a.base == nullptr ? nullptr : a.base + std::uint64_t{block()} * a.block * sizeof(T)),
        x(a.x + std::uint64_t{block()} * a.block * sizeof(T)),
        n(static_cast<std::uint32_t>(
            smaller<std::uint64_t>(a.block, a.n - std::uint64_t{block()} * a.block))),
        line(a.line) {}

  MQ_DEVICE T base_at(std::uint32_t i) const { return load<T>(base + std::size_t{i} * sizeof(T)); }
  MQ_DEVICE void set(std::uint32_t i, T value) const { store<T>(x + std::size_t{i} * sizeof(T), value); }

  MQ_DEVICE void read_lines(SentLines<T>& s) const {
    const std::uint32_t lines = lines_of(n, line);
    load_bitmap(wire + 4, lines, s.bits);
    barrier();
    s.list(lines);
    const std::byte* const values = wire + 4 + bitmap_bytes(lines);
    if (base != x)
      in_batches<4>(
          thread(), n, threads(), [&](std::uint32_t i) { return base != nullptr ? base_at(i) : T{0}; },
          [&](std::uint32_t i, T value) {
            if (!s.has(i / line)) set(i, value);
          });
    in_batches<4>(
        thread(), sent_elements_of(s, n, line), threads(),
        [&](std::uint32_t e) {
          const T value = load<T>(values + std::size_t{e} * sizeof(T));
          const std::uint32_t i = s.line[e / line] * line + e % line;
          return base != nullptr ? joined_sum(base_at(i), value) : value;
        },
        [&](std::uint32_t e, T value) { set(s.line[e / line] * line + e % line, value); });
  }
};

template <class T>
MQ_DEVICE void decode_meprop(const MePropDecodeArgs& a) {
  const std::uint64_t offset = find_block(a, MePropLength<T>{a.line});
  barrier();  // the walk used the shared memory
  if (offset == kNoBlock) return;
  const MePropDecoder<T> d(a, offset);
  const auto format = load<std::uint32_t>(d.wire);
  if (format == kLines) return d.read_lines(*reinterpret_cast<SentLines<T>*>(dynamic_shared()));
  const T rest = format == kLost ? nan_value<T>() : T{0};
  const bool ok = read_marks(d.wire + 4, d.n, rest, [&](std::uint32_t i, T value) {
    d.set(i, d.base != nullptr ? joined_sum(d.base_at(i), value) : value);
  });
  if (!ok && thread() == 0) *a.malformed = 1;
}

}  // namespace mq::kernels::cuda

#define MQ_MEPROP_KERNELS(name, T)                                                                          \
  MQ_KERNEL(meprop_encode_##name, mq::kernels::cuda::MePropEncodeArgs, mq::kernels::cuda::kMePropThreads) { \
    mq::kernels::cuda::encode_meprop<T>(args);                                                              \
  }                                                                                                         \
  MQ_KERNEL(meprop_walk_##name, mq::kernels::cuda::MePropDecodeArgs, 256) {                                 \
    mq::kernels::cuda::walk(args, mq::kernels::cuda::MePropLength<T>{args.line});                           \
  }                                                                                                         \
  MQ_KERNEL(meprop_decode_##name, mq::kernels::cuda::MePropDecodeArgs, mq::kernels::cuda::kMePropThreads) { \
    mq::kernels::cuda::decode_meprop<T>(args);                                                              \
  }
MQ_MEPROP_KERNELS(f32, float)
MQ_MEPROP_KERNELS(f64, double)
#undef MQ_MEPROP_KERNELS
