// What the codecs of half size, f16 and bf16, have in common: every element is rounded to 16 bits. Doubles
// are rounded to float first, so they are rounded twice. Wire: n little-endian 16-bit words, 2 n bytes.
#pragma once
#include "kernels/host/convert-inl.hpp"
#include "kernels/host/loops-inl.hpp"

template <class To, class From>
MQ_INLINE Lanes<To> cast_lanes(const Lanes<From>& v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else {
    From from[kLanes];
    v.store(reinterpret_cast<std::byte*>(from), Whole{});
    To to[kLanes];
    for (int i = 0; i < kLanes; ++i) to[i] = static_cast<To>(from[i]);
    return Lanes<To>::load(reinterpret_cast<const std::byte*>(to), Whole{});
  }
}

template <class Me, class Format>
struct HalfCodec {
  static constexpr bool kLossless = false;
  template <class T>
  using Family = Loops<T, Me>;
  static constexpr std::size_t block(const Params&) { return kLanes; }
  static constexpr bool contraction(const Params&) { return true; }  // of every element
  template <class T>
  static constexpr std::size_t code_bytes(std::size_t n) {
    return 2 * n;
  }
  template <class T, class W>
  static MQ_INLINE Lanes<T> put(const Lanes<T>& v, NoScale, std::byte* codes, W width) {
    Halves<Format>::store(cast_lanes<float>(v), codes, width);
    return get<T>(NoScale{}, codes, width);
  }
  template <class T, class W>
  static MQ_INLINE Lanes<T> get(NoScale, const std::byte* codes, W width) {
    return cast_lanes<T>(Halves<Format>::load(codes, width));
  }
};
