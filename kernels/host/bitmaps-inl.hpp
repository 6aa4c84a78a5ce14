// The loops of kernels/bitmaps.hpp. Included once per instruction set, after lanes-inl.hpp.
//
// The number of ones in a group is unpredictable, so no branch depends on it. Scalar code is the exception:
// it cannot expand lanes, so it visits the ones one by one.
#pragma once
#include "kernels/host/lanes-inl.hpp"

struct SumFold {
  template <class N>
  static MQ_INLINE typename N::Reg of(typename N::Reg a, typename N::Reg b) {
    return N::add(a, b);
  }
};
template <bool kGreatest>
struct OrderFold {
  template <class N>
  static MQ_INLINE typename N::Reg of(typename N::Reg a, typename N::Reg b) {
    const typename N::Mask first = kGreatest ? N::at_least(a, b) : N::at_least(b, a);  // false for NaN
    return N::select(N::ordered(a), N::select(first, a, b), a);
  }
};

template <class T>
struct Bitmaps {
  using N = Native<T>;
  using L = Lanes<T>;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
  static constexpr bool kExpands = requires(typename N::Reg r) { N::expand(0u, r); };

  // Writes one byte for each position first. These writes do not wait for each other, unlike writes to the
  // bits of a word.
  static void make(const std::uint64_t* indices, std::size_t n, std::uint64_t base, std::byte* bitmap,
                   std::size_t words) noexcept {
    constexpr std::size_t kWords = 64;  // at a time
    alignas(64) std::byte bytes[64 * kWords] = {};
    for (std::size_t first = 0, i = 0; first < words; first += kWords, base += 64 * kWords) {
      for (; i < n && indices[i] - base < 64 * kWords; ++i) bytes[indices[i] - base] = std::byte{0xff};
      for (std::size_t w = first; w < std::min(words, first + kWords); ++w)
        take_top_bits(bytes + 64 * (w - first), bitmap + 8 * w);
    }
  }

  static std::size_t count(const std::byte* bitmap, std::size_t words) noexcept {
    std::size_t n = 0;
    for (std::size_t w = 0; w < words; ++w) {
      std::uint64_t word;
      std::memcpy(&word, bitmap + w * sizeof word, sizeof word);
      n += static_cast<std::size_t>(std::popcount(word));
    }
    return n;
  }

  static void list(const std::byte* bitmap, std::size_t words, std::uint64_t base, std::uint64_t* indices,
                   std::size_t) noexcept {
    for (std::size_t w = 0; w < words; w += kStage, base += 64 * kStage) {
      const Stage stage(bitmap + 8 * w, std::min(kStage, words - w));
      indices = stage.list(base, indices);
    }
  }

  template <class O>
  static void fold(void* elements, const std::byte* bitmap, std::size_t words, const std::byte* values,
                   std::size_t n) noexcept {
    auto* into = static_cast<std::byte*>(elements);
    const std::byte* const end = values + n * sizeof(T);
    for (std::size_t g = 0; g < 2 * words; ++g, into += kGroupBytes) {
      const std::uint32_t bits = load_bits(bitmap + g * sizeof bits, Whole{});
      if constexpr (kExpands) {
        fold_group<O>(into, bits, expand_lanes<T>(values, bits, end));
        values += static_cast<std::size_t>(std::popcount(bits)) * sizeof(T);
      } else {
        for (std::uint32_t rest = bits; rest != 0; rest &= rest - 1, values += sizeof(T)) {
          std::byte* const at = into + static_cast<std::size_t>(std::countr_zero(rest)) * sizeof(T);
          N::store(at, O::template of<N>(N::load(at), N::load(values)));
        }
      }
    }
  }

  static void collect(const void* elements, const std::byte* bitmap, std::size_t words, std::uint64_t base,
                      std::uint64_t* indices, void* values, std::size_t) noexcept {
    const auto* from = static_cast<const std::byte*>(elements);
    auto* to = static_cast<std::byte*>(values);
    for (std::size_t w = 0; w < words; w += kStage, base += 64 * kStage, from += 2 * kStage * kGroupBytes) {
      const Stage stage(bitmap + 8 * w, std::min(kStage, words - w));
      indices = stage.list(base, indices);
      for (std::size_t i = 0; i < stage.n; ++i, to += sizeof(T))
        std::memcpy(to, from + stage.position[i] * sizeof(T), sizeof(T));
    }
  }

 private:
  // Positions of the ones of a few words. The processor need not wait between bytes of the bitmap: each byte
  // always writes eight positions, and the next byte overwrites the invalid ones.
  static constexpr std::size_t kStage = 64;
  struct Stage {
    std::uint16_t position[64 * kStage + 8];
    std::size_t n;

    MQ_INLINE Stage(const std::byte* bitmap, std::size_t words) {
      std::uint16_t* to = position;
      for (std::size_t i = 0; i < 8 * words; ++i) {
        const auto byte = std::to_integer<std::size_t>(bitmap[i]);
        const auto* const ones = reinterpret_cast<const __m128i*>(kOnes.position[byte]);
        const __m128i first = _mm_set1_epi16(static_cast<short>(8 * i));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_add_epi16(_mm_load_si128(ones), first));
        to += kOnes.count[byte];
      }
      n = static_cast<std::size_t>(to - position);
    }
    // Returns the end of the list.
    MQ_INLINE std::uint64_t* list(std::uint64_t base, std::uint64_t* indices) const {
      for (std::size_t i = 0; i < n; ++i) indices[i] = base + position[i];
      return indices + n;
    }
  };

  template <class O>
  static MQ_INLINE void fold_group(std::byte* into, std::uint32_t bits, const L& v) {
    for (int i = 0; i < L::kRegs; ++i) {
      std::byte* const at = into + static_cast<std::size_t>(i) * L::kRegBytes;
      const typename N::Reg old = N::load(at), sum = O::template of<N>(old, v.r[i]);
      N::store(at, N::select(N::from_bits(bits >> (i * N::kWidth)), sum, old));
    }
  }
};

template <class T>
inline constexpr BitmapOps kBitmapOps{
    &Bitmaps<T>::make,
    &Bitmaps<T>::count,
    &Bitmaps<T>::list,
    {&Bitmaps<T>::template fold<SumFold>, &Bitmaps<T>::template fold<OrderFold<false>>,
     &Bitmaps<T>::template fold<OrderFold<true>>},
    &Bitmaps<T>::collect};
template <class... T>
inline constexpr std::array kBitmaps{kBitmapOps<T>...};
