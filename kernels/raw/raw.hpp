// raw: the elements themselves. It measures what a plan costs without a codec, and it is the lossless case of
// the tests. Wire: n elements, n * sizeof(T) bytes. Half types are refused, because they would be sent as
// floats, twice their size; f16 and bf16 each send one of them exactly.
#pragma once
#include "kernels/host/loops-inl.hpp"

struct Raw {
  static constexpr std::string_view kName = "raw";
  static constexpr std::string_view kWhat =
      "the elements unchanged, lossless; measures a plan without a codec";
  static constexpr std::uint16_t kId = 1;
  static constexpr bool kLossless = true;
  template <class T>
  using Family = Loops<T, Raw>;

  // Parameters.
  static constexpr std::array<ParamSpec, 0> kSpecs{};

  // Wire format.
  static constexpr std::size_t block(const Params&) { return kLanes; }
  template <class T>
  static constexpr std::size_t code_bytes(std::size_t n) {
    return n * sizeof(T);
  }

  // Encode.
  template <class T, class W>
  static MQ_INLINE Lanes<T> put(const Lanes<T>& v, NoScale, std::byte* codes, W width) {
    v.store(codes, width);
    return v;
  }

  // Decode.
  template <class T, class W>
  static MQ_INLINE Lanes<T> get(NoScale, const std::byte* codes, W width) {
    return Lanes<T>::load(codes, width);
  }
};
