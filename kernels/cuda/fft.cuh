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
  std::uint32_t nonfinite, overflows;
  int exponent;
  FftFormat format;
};
template <class T>
MQ_DEVICE FftRead read_chunk(const FftSource<T>& source, std::uint32_t n, bool keeps) {
  using Chunk = FftChunkOf<T>;
  constexpr int kBias = std::numeric_limits<T>::max_exponent - 1;
  constexpr Key<T> kTooLarge = static_cast<Key<T>>(Chunk::kMostExponent + 1 + kBias) << kMantissaBits<T>;
  Key<T> greatest = 0;
  std::uint32_t nonfinite = 0, large = 0;
  for (std::uint32_t i = thread(); i < n; i += threads()) {
    const Key<T> key = key_of(source.v(i)) & ~kSignBit<T>;
    nonfinite += !finite_key<T>(key);
    if (finite_key<T>(key)) greatest = greater(greatest, key);
    large += finite_key<T>(key) && key >= kTooLarge;
  }
  greatest = block_max(greatest);
  nonfinite = block_sum(nonfinite);
  const int exponent = greater(static_cast<int>(greatest >> kMantissaBits<T>) - kBias, Chunk::kLeastExponent);
  const bool marked = nonfinite > 0 || exponent > Chunk::kMostExponent;
  std::uint32_t overflows = 0;
  if (exponent > Chunk::kMostExponent && nonfinite == 0 && n >= 16) overflows = keeps ? block_sum(large) : n;
  return {nonfinite, overflows, exponent,
          n < 16    ? FftFormat::plain
          : !marked ? FftFormat::coefficients
          : keeps   ? FftFormat::kept
                    : FftFormat::lost};
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
    bytes += c.top_bytes() + bitmap_bytes(c.coefficients) + c.part_bytes();
  } else {
    bytes += plain ? n * static_cast<std::uint32_t>(sizeof(T)) : marks_bytes<T>(n);
  }
  publish_block(a, number, bytes);
  auto* const staged = reinterpret_cast<std::byte*>(&c.numbers);
  if (thread() == 0)
    *reinterpret_cast<std::uint32_t*>(staged) = fft_header(coded ? read.exponent : 0, read.format);
  std::byte* const out = staged + kFftHeader;
  if (coded) {
    std::byte* const bitmap = out + c.top_bytes();
    store_bitmap(c.s.sent, c.coefficients, bitmap);
    c.put_parts(out, bitmap + bitmap_bytes(c.coefficients));
  } else if (plain) {
    for (std::uint32_t i = thread(); i < n; i += threads()) store<T>(out + i * sizeof(T), source.v(i));
  } else {
    write_marks<T>(
        n, [&](std::uint32_t i) { return source.v(i); }, out);
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
  if (thread() == 0) end_block(a, bytes, read.nonfinite, read.overflows);
}

// For the walk.
template <class T>
struct FftLength {
  std::uint32_t bits;
  kernels::FloatRange<T> range;
  MQ_DEVICE std::uint32_t head(std::uint32_t n) const {
    return kFftHeader + marks_bytes<T>(fft_padded(n) / 2 + 1);
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
      bytes = marks_bytes<T>(n);
    }
    return bytes <= left ? kFftHeader + bytes : 0;
  }

 private:
  MQ_DEVICE std::uint64_t coefficient_bytes(const std::byte* p, std::uint64_t left, std::uint32_t n,
                                            std::uint32_t most) const {
    const std::uint32_t coefficients = fft_padded(n) / 2 + 1, bitmap = bitmap_bytes(coefficients);
    const std::uint32_t head = bits == 32 ? 0 : sizeof(T);
    if (left < head + bitmap) return 0;
    if (bits != 32) {
      Key<T> top = near_word(p);
      if constexpr (sizeof(T) == 8) top |= static_cast<Key<T>>(near_word(p + 4)) << 32;
      if (top != range.within(top)) return 0;
    }
    if (!ends_clean(p + head, coefficients)) return 0;
    const std::uint32_t count = ones_of(p + head, coefficients);
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
    load_bitmap(bitmap, c.coefficients, c.s.sent);
    barrier();
    c.rank();
    ok = c.get_parts(in, bitmap + bitmap_bytes(c.coefficients));
    if (ok) {
      const int exponent = static_cast<std::int16_t>(header & 0xffff);
      BlockFourier<T> fourier(c.numbers, c.padded);
      c.transform_back(fourier);
      for (std::uint32_t i = thread(); i < n; i += threads()) put(i, c.decoded(fourier, i, exponent));
    }
  } else {
    ok = read_marks(in, n, format == FftFormat::lost ? nan_value<T>() : T{0}, put);
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
