// fft on a GPU: the device twin of codecs/fft_chunk-inl.hpp. A thread block codes a chunk. Coefficients and parts are in scratch
// memory of the device, which its L1 and L2 caches hold.
#pragma once

#include "kernels/cuda/fft_chunk.cuh"

namespace mq::kernels::cuda {

// x, with carry plus the residual, and what becomes of what is lost.
template <class T>
struct FftSource {
  const std::byte* x;
  std::byte* residual;
  Feedback feedback;
  MQ_DEVICE T v(std::uint32_t i) const {
    const T alone = load<T>(x + std::size_t{i} * sizeof(T));
    const T sum =
        feedback != Feedback::carry ? alone : sum_of(alone, load<T>(residual + std::size_t{i} * sizeof(T)));
    return sum == sum ? sum : nan_value<T>();  // the same NaN everywhere
  }
  MQ_DEVICE void keep(std::uint32_t i, T value, T decoded) const {
    std::byte* const at = residual + std::size_t{i} * sizeof(T);
    const T error = is_finite(value) ? value - decoded : T{0};
    store<T>(at, feedback == Feedback::deposit ? deposited(load<T>(at), error) : error);
  }
};

// What the elements of a chunk ask for.
struct FftRead {
  std::uint32_t nonfinite;
  int exponent;
  FftFormat format;
};
template <class T>
MQ_DEVICE FftRead read_chunk(const FftSource<T>& source, std::uint32_t n, bool keeps) {
  using Chunk = FftChunkOf<T>;
  Key<T> greatest = 0;
  std::uint32_t nonfinite = 0;
  for (std::uint32_t i = thread(); i < n; i += threads()) {
    const Key<T> key = key_of(source.v(i)) & ~kSignBit<T>;
    nonfinite += !finite_key<T>(key);
    if (finite_key<T>(key)) greatest = greater(greatest, key);
  }
  greatest = block_max(greatest);
  nonfinite = block_sum(nonfinite);
  constexpr int kBias = std::numeric_limits<T>::max_exponent - 1;
  const int exponent = greater(static_cast<int>(greatest >> kMantissaBits<T>) - kBias, Chunk::kLeastExponent);
  const bool marked = nonfinite > 0 || exponent > Chunk::kMostExponent;
  return {nonfinite, exponent,
          n < 16    ? FftFormat::plain
          : !marked ? FftFormat::coefficients
          : keeps   ? FftFormat::kept
                    : FftFormat::lost};
}

// Writes the value of elements that are not finite, and their bits.
template <class T>
MQ_DEVICE void write_chunk_marks(const FftSource<T>& source, std::uint32_t n, std::byte* out) {
  bool not_above = false, not_below = false;
  for (std::uint32_t w = warp(); w < words_of(n); w += warps()) {
    const std::uint32_t i = 32 * w + lane();
    const T value = i < n ? source.v(i) : T{0};
    const bool marked = !is_finite(value);
    not_above |= marked && !(value == kInfinity<T>);
    not_below |= marked && !(value == -kInfinity<T>);
    const Word bits = ballot(marked);
    if (lane() < 4 && 4 * w + lane() < (n + 7) / 8)
      out[sizeof(T) + 4 * w + lane()] = static_cast<std::byte>(bits >> (8 * lane()));
  }
  not_above = barrier_or(not_above);
  not_below = barrier_or(not_below);
  const T mark = mark_of<T>(!not_above, !not_below);
  if (thread() == 0) store<T>(out, mark);
}

template <class T>
MQ_DEVICE void encode_fft(const FftEncodeArgs<T>& a) {
  const std::uint32_t number = take_block(a);
  const std::uint64_t begin = std::uint64_t{number} * a.chunk;
  const auto n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.chunk, a.n - begin));
  const FftSource<T> source{a.x + begin * sizeof(T),
                            a.feedback == Feedback::none ? nullptr : a.residual + begin * sizeof(T),
                            a.feedback};
  FftChunkOf<T> c(a.setting, a.memory, a.numbers, n, n < a.chunk);
  BlockFourier<T> fourier(c.numbers, c.padded);
  const FftRead read = read_chunk(source, n, a.keeps);
  const bool plain = read.format == FftFormat::plain, coded = read.format == FftFormat::coefficients;
  std::uint32_t bytes = kFftHeader;
  if (coded) {
    const T scale = FftChunkOf<T>::power(-read.exponent);
    fourier.forward([&](std::uint32_t i) { return i < n ? source.v(i) * scale : T{0}; }, c.m.re, c.m.im);
    c.choose(reinterpret_cast<std::uint32_t*>(&c.numbers));
    c.take_parts();
    bytes += c.top_bytes() + c.bitmap_bytes() + c.part_bytes();
  } else {
    bytes += plain ? n * static_cast<std::uint32_t>(sizeof(T))
                   : static_cast<std::uint32_t>(sizeof(T)) + (n + 7) / 8;
  }
  publish_block(a, number, bytes);
  auto* const staged = reinterpret_cast<std::byte*>(&c.numbers);
  if (thread() == 0)
    *reinterpret_cast<std::uint32_t*>(staged) = fft_header(coded ? read.exponent : 0, read.format);
  std::byte* const out = staged + kFftHeader;
  if (coded) {
    std::byte* const bitmap = out + c.top_bytes();
    for (std::uint32_t i = thread(); i < c.bitmap_bytes(); i += threads())
      bitmap[i] = static_cast<std::byte>(c.s.sent[i / 4] >> (8 * (i % 4)));
    c.put_parts(out, bitmap + c.bitmap_bytes());
  } else if (plain) {
    for (std::uint32_t i = thread(); i < n; i += threads()) store<T>(out + i * sizeof(T), source.v(i));
  } else {
    write_chunk_marks(source, n, out);
  }
  std::byte* const to = own_wire(a, number, bytes);  // contains a barrier
  copy_out(to, staged, bytes);
  barrier();
  if (a.feedback != Feedback::none) {
    if (coded) c.transform_back(fourier);
    for (std::uint32_t i = thread(); i < n; i += threads()) {
      const T v = source.v(i);
      source.keep(i, v, coded ? c.decoded(fourier, i, read.exponent) : plain ? v : T{0});
    }
  }
  barrier();
  if (thread() == 0) end_block(a, bytes, read.nonfinite);
}

// For the walk.
template <class T>
struct FftLength {
  std::uint32_t bits;
  kernels::FloatRange<T> range;
  MQ_DEVICE std::uint32_t head(std::uint32_t n) const {
    return kFftHeader + static_cast<std::uint32_t>(sizeof(T)) + (fft_padded(n) / 2 + 1 + 7) / 8;
  }
  MQ_DEVICE std::uint64_t of(const std::byte* p, std::uint64_t left, std::uint32_t n,
                             std::uint32_t most) const {
    if (left < kFftHeader) return 0;
    const std::uint32_t header = near_word(p);
    const auto exponent = static_cast<std::int16_t>(header & 0xffff);
    const std::uint32_t format = header >> 16;
    left -= kFftHeader;
    std::uint64_t bytes = 0;
    if (n < 16) {
      if (format != static_cast<std::uint32_t>(FftFormat::plain) || exponent != 0) return 0;
      bytes = n * sizeof(T);
    } else if (format == static_cast<std::uint32_t>(FftFormat::coefficients)) {
      if (exponent < FftChunkOf<T>::kLeastExponent || exponent > FftChunkOf<T>::kMostExponent) return 0;
      bytes = coefficient_bytes(p + kFftHeader, left, n, most);
      if (bytes == 0) return 0;
    } else {
      if (format != static_cast<std::uint32_t>(FftFormat::kept) &&
          format != static_cast<std::uint32_t>(FftFormat::lost))
        return 0;
      if (exponent != 0) return 0;
      bytes = sizeof(T) + (n + 7) / 8;
    }
    return bytes <= left ? kFftHeader + bytes : 0;
  }

 private:
  MQ_DEVICE std::uint64_t coefficient_bytes(const std::byte* p, std::uint64_t left, std::uint32_t n,
                                            std::uint32_t most) const {
    const std::uint32_t coefficients = fft_padded(n) / 2 + 1, bitmap = (coefficients + 7) / 8;
    const std::uint32_t head = bits == 32 ? 0 : sizeof(T);
    if (left < head + bitmap) return 0;
    if (bits != 32) {
      Key<T> top = near_word(p);
      if constexpr (sizeof(T) == 8) top |= static_cast<Key<T>>(near_word(p + 4)) << 32;
      if (top != range.within(top)) return 0;
    }
    const auto byte_at = [&](std::uint32_t i) { return static_cast<std::uint32_t>(p[head + i]); };
    std::uint32_t count = 0;
    for (std::uint32_t i = lane(); i < bitmap; i += 32) count += count_ones(byte_at(i));
    count = warp_sum(count);
    if (coefficients % 8 != 0 && byte_at(bitmap - 1) >> coefficients % 8 != 0) return 0;
    if (count > most) return 0;
    return head + bitmap + fft_part_bytes(bits, sizeof(T), 2 * count);
  }
};

template <class T>
MQ_DEVICE void decode_fft(const FftDecodeArgs<T>& a) {
  const std::uint64_t offset = find_block(a, FftLength<T>{a.setting.bits, a.setting.range});
  barrier();  // the walk used the shared memory
  if (offset == kNoBlock) return;
  const std::uint64_t begin = std::uint64_t{block()} * a.block;
  const auto n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.block, a.n - begin));
  const std::byte* const wire = a.wire + offset;
  const std::byte* const base = a.base == nullptr ? nullptr : a.base + begin * sizeof(T);
  std::byte* const x = a.x + begin * sizeof(T);
  const auto put = [&](std::uint32_t i, T v) {
    if (base != nullptr) v = joined_sum(load<T>(base + std::size_t{i} * sizeof(T)), v);
    store<T>(x + std::size_t{i} * sizeof(T), v);
  };
  const auto header = load<std::uint32_t>(wire);
  const auto format = static_cast<FftFormat>(header >> 16);
  const std::byte* const in = wire + kFftHeader;
  bool ok = true;
  if (format == FftFormat::plain) {
    for (std::uint32_t i = thread(); i < n; i += threads()) put(i, load<T>(in + i * sizeof(T)));
  } else if (format == FftFormat::coefficients) {
    FftChunkOf<T> c(a.setting, a.memory, a.numbers, n, n < a.block);
    const std::byte* const bitmap = in + c.top_bytes();
    for (std::uint32_t w = thread(); w < words_of(c.coefficients); w += threads()) {
      Word bits = 0;
      for (std::uint32_t i = 0; i < 4 && 4 * w + i < c.bitmap_bytes(); ++i)
        bits |= static_cast<Word>(bitmap[4 * w + i]) << (8 * i);
      c.s.sent[w] = bits;
    }
    barrier();
    c.rank();
    ok = c.get_parts(in, bitmap + c.bitmap_bytes());
    if (ok) {
      const int exponent = static_cast<std::int16_t>(header & 0xffff);
      BlockFourier<T> fourier(c.numbers, c.padded);
      c.transform_back(fourier);
      for (std::uint32_t i = thread(); i < n; i += threads()) put(i, c.decoded(fourier, i, exponent));
    }
  } else {
    const T mark = load<T>(in), rest = format == FftFormat::lost ? nan_value<T>() : T{0};
    const std::byte* const bits = in + sizeof(T);
    ok = !is_finite(mark) && (n % 8 == 0 || static_cast<std::uint32_t>(bits[n / 8]) >> n % 8 == 0);
    for (std::uint32_t i = thread(); i < n && ok; i += threads())
      put(i, (static_cast<std::uint32_t>(bits[i / 8]) >> i % 8 & 1) != 0 ? mark : rest);
  }
  if (!ok && thread() == 0) *a.malformed = 1;
}

}  // namespace mq::kernels::cuda

#define MQ_FFT_KERNELS(name, T)                                                                            \
  MQ_KERNEL(fft_encode_##name, mq::kernels::cuda::FftEncodeArgs<T>, mq::kernels::cuda::kFftThreads) {      \
    mq::kernels::cuda::encode_fft<T>(args);                                                                \
  }                                                                                                        \
  MQ_KERNEL(fft_walk_##name, mq::kernels::cuda::FftDecodeArgs<T>, 256) {                                   \
    mq::kernels::cuda::walk(args, mq::kernels::cuda::FftLength<T>{args.setting.bits, args.setting.range}); \
  }                                                                                                        \
  MQ_KERNEL(fft_decode_##name, mq::kernels::cuda::FftDecodeArgs<T>, mq::kernels::cuda::kFftThreads) {      \
    mq::kernels::cuda::decode_fft<T>(args);                                                                \
  }
MQ_FFT_KERNELS(f32, float)
MQ_FFT_KERNELS(f64, double)
#undef MQ_FFT_KERNELS
