// The coefficients of a chunk of fft on a GPU: which of them are sent, their codes, and back to elements. Used by one thread block.
#pragma once

#include "kernels/cuda/fourier.cuh"
#include "kernels/cuda/marks.cuh"
#include "kernels/cuda/patterns.cuh"
#include "kernels/cuda/select.cuh"
#include "kernels/cuda/sparse_walk.cuh"

namespace mq::kernels::cuda {

#include "kernels/codecs/fft_format-inl.hpp"

using FftFormat = FftHeader::Format;
inline constexpr std::uint32_t kFftWords = kTurn / 2 / 32 + 1, kFftHeader = sizeof(FftHeader);
MQ_DEVICE std::uint32_t fft_header(int exponent, FftFormat format) {
  return (static_cast<std::uint32_t>(exponent) & 0xffff) | std::uint32_t{format} << 16;
}

// The coefficients of a chunk, which of them are sent, and their parts.
template <class T>
struct FftChunkOf {
  using Coder = typename RangeFloatBlocks<T>::Coder;
  static constexpr int kMostExponent = std::numeric_limits<T>::max_exponent - 3;
  static constexpr int kLeastExponent = std::numeric_limits<T>::min_exponent - 1;
  struct Shared {
    Word sent[kFftWords], ties[kFftWords];
    std::uint32_t before[kFftWords], count;
  };
  const FftSetting<T>& setting;
  FftMemory<T>& m;
  FftNumbers<T>& numbers;
  Shared& s;
  const std::uint32_t n, padded, coefficients, most;

  MQ_DEVICE FftChunkOf(const FftSetting<T>& of, FftMemory<T>* memory, FftNumbers<T>* far,
                       std::uint32_t elements, bool is_last)
      : setting(of),
        m(memory[block()]),
        numbers(far != nullptr ? far[block()] : *reinterpret_cast<FftNumbers<T>*>(dynamic_shared())),
        s(shared<Shared>()),
        n(elements),
        padded(fft_padded(elements)),
        coefficients(padded / 2 + 1),
        most(of.most[is_last]) {}
  MQ_DEVICE bool exact() const { return setting.bits == 32; }
  MQ_DEVICE std::uint32_t top_bytes() const { return exact() ? 0 : static_cast<std::uint32_t>(sizeof(T)); }
  MQ_DEVICE std::uint32_t part_bytes() const {
    return static_cast<std::uint32_t>(fft_part_bytes(setting.bits, sizeof(T), 2 * s.count));
  }
  // 2^e for an e at which it is a normal number.
  static MQ_DEVICE T power(int e) {
    constexpr int kBias = std::numeric_limits<T>::max_exponent - 1;
    return bits_as<T>(static_cast<Key<T>>(e + kBias) << kMantissaBits<T>);
  }

  // The coefficients with the most energy: the exact selection of all of them, ties by position.
  MQ_DEVICE void choose(std::uint32_t* bins) {
    T* const energy = m.parts;
    for (std::uint32_t k = thread(); k < coefficients; k += threads()) {
      T e = (m.re[k] * m.re[k] + m.im[k] * m.im[k]) * T{2};
      if (k == 0 || k + 1 == coefficients) e = e * T{0.5F};
      energy[k] = e;
    }
    barrier();
    RadixSearch<T> search(kBoth, most);
    const bool some = search.all_digits(bins, [&](const auto& visit) {
      for (std::uint32_t k = thread(); k < coefficients; k += threads()) visit(energy[k]);
    });
    const std::uint32_t words = words_of(coefficients);
    for (std::uint32_t w = warp(); w < words; w += warps()) {
      const std::uint32_t k = 32 * w + lane();
      const Magnitude<T> e(k < coefficients ? energy[k] : T{0});
      const Word above = ballot(e.is && (!some || e.key > search.prefix));
      const Word ties = ballot(e.is && some && e.key == search.prefix);
      if (lane() == 0) s.sent[w] = above;
      if (lane() == 0) s.ties[w] = ties;
    }
    barrier();
    if (thread() == 0) {
      std::uint32_t left = some ? search.k : 0;
      for (std::uint32_t w = 0; w < words && left > 0; ++w)
        for (Word ties = s.ties[w]; ties != 0 && left > 0; ties &= ties - 1, --left)
          s.sent[w] |= ties & (~ties + 1);
    }
    barrier();
    rank();
  }
  // Once the bits are set: the number of ones before each word, and of all.
  MQ_DEVICE void rank() {
    if (thread() == 0) {
      std::uint32_t count = 0;
      for (std::uint32_t w = 0; w < words_of(coefficients); ++w) {
        s.before[w] = count;
        count += count_ones(s.sent[w]);
      }
      s.count = count;
    }
    barrier();
  }
  // Calls f(coefficient, rank) for those that are sent, others(coefficient) for the rest.
  template <class F, class Others>
  MQ_DEVICE void each(const F& f, const Others& others) const {
    for (std::uint32_t k = thread(); k < coefficients; k += threads()) {
      const Word word = s.sent[k / 32];
      if ((word >> (k % 32) & 1) != 0)
        f(k, s.before[k / 32] + count_ones(word & lanes_below(k % 32)));
      else
        others(k);
    }
    barrier();
  }
  MQ_DEVICE void take_parts() {
    each(
        [&](std::uint32_t k, std::uint32_t rank) {
          m.parts[2 * rank] = m.re[k];
          m.parts[2 * rank + 1] = m.im[k];
        },
        [](std::uint32_t) {});
  }
  // The elements that the parts stand for; element(i) gives them.
  MQ_DEVICE void transform_back(BlockFourier<T>& fourier) {
    each(
        [&](std::uint32_t k, std::uint32_t rank) {
          m.re[k] = m.parts[2 * rank];
          m.im[k] = m.parts[2 * rank + 1];
        },
        [&](std::uint32_t k) { m.re[k] = m.im[k] = T{0}; });
    fourier.inverse(m.re, m.im);
  }
  MQ_DEVICE T decoded(BlockFourier<T>& fourier, std::uint32_t i, int exponent) const {
    const T limit = std::numeric_limits<T>::max() / 2 * power(-exponent);
    const T v = fourier.element(i), raised = v > -limit ? v : -limit;
    return (raised < limit ? raised : limit) * power(exponent);
  }

  // Writes top and parts to shared or device memory; parts become what their codes stand for.
  MQ_DEVICE void put_parts(std::byte* top_at, std::byte* out) {
    const std::uint32_t parts = 2 * s.count;
    if (exact()) {
      for (std::uint32_t i = thread(); i < parts; i += threads())
        store<T>(out + std::size_t{i} * sizeof(T), m.parts[i]);
      barrier();
      return;
    }
    Key<T> greatest = 0;
    for (std::uint32_t i = thread(); i < parts; i += threads())
      greatest = greater(greatest, key_of(m.parts[i]) & ~kSignBit<T>);
    greatest = block_max(greatest);
    const Key<T> top = setting.range.within(setting.range.rounded(greatest));
    if (thread() == 0) store(top_at, bits_as<T>(top));
    const Coder coder(setting.range, top);
    const std::uint32_t group = 4 * setting.bits;
    for (std::uint32_t g = warp(); 32 * g < parts; g += warps()) {
      const std::uint32_t i = 32 * g + lane();
      const std::uint32_t code = i < parts ? coder.code_of(m.parts[i]) : 0;
      if (i < parts) m.parts[i] = coder.value_of(code);
      if (parts - 32 * g >= 32)
        pack_codes(out + std::size_t{g} * group, static_cast<int>(setting.bits), code);
      else if (i < parts)
        out[std::size_t{g} * group + lane()] = static_cast<std::byte>(code);
    }
    barrier();
  }
  // False if encode cannot have written these codes.
  MQ_DEVICE bool get_parts(const std::byte* top_at, const std::byte* in) {
    const std::uint32_t parts = 2 * s.count;
    bool ok = true;
    if (exact()) {
      for (std::uint32_t i = thread(); i < parts; i += threads()) {
        m.parts[i] = load<T>(in + std::size_t{i} * sizeof(T));
        ok &= is_finite(m.parts[i]);
      }
      return !barrier_or(!ok);
    }
    const Coder coder(setting.range, load<Key<T>>(top_at));
    const std::uint32_t group = 4 * setting.bits;
    for (std::uint32_t g = warp(); 32 * g < parts; g += warps()) {
      const std::uint32_t i = 32 * g + lane();
      const std::byte* const at = in + std::size_t{g} * group;
      std::uint32_t code = 0;
      if (parts - 32 * g >= 32)
        code = unpack_code(at, static_cast<int>(setting.bits));
      else if (i < parts)
        code = static_cast<std::uint32_t>(at[lane()]);
      ok &= code >> setting.bits == 0;
      const T value = coder.value_of(code);
      ok &= is_finite(value);
      if (i < parts) m.parts[i] = value;
    }
    return !barrier_or(!ok);
  }
};

}  // namespace mq::kernels::cuda
