// What all families of loops have in common: the two functions of a row, and the elements that an encode
// reads.
#pragma once
#include "kernels/host/lanes-inl.hpp"

// Element i of an array of any alignment.
template <class T>
MQ_INLINE T element(const std::byte* v, std::size_t i) {
  T value;
  std::memcpy(&value, v + i * sizeof(T), sizeof value);
  return value;
}
template <class T>
MQ_INLINE void set_element(std::byte* v, std::size_t i, T value) {
  std::memcpy(v + i * sizeof(T), &value, sizeof value);
}

// The compiler decides which of two NaNs a sum keeps, so every NaN of a sum is replaced by the same one.
template <class T>
MQ_INLINE Lanes<T> sum_of(const Lanes<T>& base, const Lanes<T>& decoded) {
  const Lanes<T> sum = base + decoded;
  return Lanes<T>::select(sum.ordered(), sum, Lanes<T>::all(std::numeric_limits<T>::quiet_NaN()));
}
// What decode stores for group g: base + decoded, or decoded alone.
template <bool kAdd, class T, class W>
MQ_INLINE Lanes<T> sum_of(const std::byte* base, std::size_t g, const Lanes<T>& decoded, W width) {
  if constexpr (!kAdd) return decoded;
  return sum_of(Lanes<T>::load(base + g * kLanes * sizeof(T), width), decoded);
}

// Elements of a block: x, with carry plus the residual. Group g is lanes 32 g to 32 g + 31.
template <class T, Feedback F>
struct Source {
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
  const std::byte* x;
  std::byte* residual;

  static MQ_INLINE Source at(const EncodeArgs& a, std::size_t element) {
    const std::size_t offset = element * sizeof(T);
    auto* const residual = static_cast<std::byte*>(a.residual);
    return {static_cast<const std::byte*>(a.x) + offset, residual ? residual + offset : nullptr};
  }
  template <class W>
  MQ_INLINE Lanes<T> v(std::size_t g, W width) const {
    const Lanes<T> alone = Lanes<T>::load(x + g * kGroupBytes, width);
    if constexpr (F == Feedback::carry)
      return alone + Lanes<T>::load(residual + g * kGroupBytes, width);
    else
      return alone;
  }
  MQ_INLINE void ask(std::size_t g) const {
    ask_ahead<T>(x, g);
    if constexpr (F != Feedback::none) ask_ahead<T>(residual, g);
  }
  // Stores what was lost: to the residual with carry, added to it with deposit.
  template <class W>
  MQ_INLINE void keep(std::size_t g, const Lanes<T>& error, W width) const {
    if constexpr (F == Feedback::none) return;
    std::byte* const at = residual + g * kGroupBytes;
    if constexpr (F == Feedback::deposit)
      deposited(Lanes<T>::load(at, width), error).store(at, width);
    else
      error.store(at, width);
  }
};

// The greatest magnitude of a block. NaN and infinities are greater than all numbers. kLate: a later pass
// asks for what comes next.
template <bool kLate, class T, Feedback F>
MQ_INLINE T greatest_magnitude(const Source<T, F>& source, std::size_t n) {
  using L = Lanes<T>;
  const std::size_t whole = n / kLanes, rest = n % kLanes;
  L most[2]{L::all(T{0}), L::all(T{0})};  // two, so that one maximum need not wait for the other
  std::size_t g = 0;
  for (; g + 2 <= whole; g += 2)
    for (std::size_t i = 0; i < 2; ++i) {
      if constexpr (!kLate) source.ask(g + i);
      most[i] = L::greatest_magnitude(most[i], source.v(g + i, Whole{}));
    }
  for (; g < whole; ++g) most[0] = L::greatest_magnitude(most[0], source.v(g, Whole{}));
  if (rest) most[0] = L::greatest_magnitude(most[0], source.v(whole, Part{rest}));
  return L::greatest_magnitude(most[0], most[1]).greatest_of_lanes();
}

// Stores the elements of a block at v.
template <class T, Feedback F>
void copy_block(const Source<T, F>& source, std::size_t n, std::byte* v) {
  constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
  const std::size_t whole = n / kLanes, rest = n % kLanes;
  for (std::size_t g = 0; g < whole; ++g) source.v(g, Whole{}).store(v + g * kGroupBytes, Whole{});
  if (rest) source.v(whole, Part{rest}).store(v + whole * kGroupBytes, Part{rest});
}

// The functions of a row. A family has encode_as<Feedback>, decode_as<kAdd>, and wire_bytes(n, params), which
// is the length of every wire, or its bound if kFixedSize is false.
template <class Family>
struct RowFunctions {
  static Encoded encode(const EncodeArgs& a) noexcept {
    const DefaultFloatingPoint environment;
    switch (a.feedback) {
      case Feedback::none: return Family::template encode_as<Feedback::none>(a);
      case Feedback::carry: return Family::template encode_as<Feedback::carry>(a);
      case Feedback::deposit: return Family::template encode_as<Feedback::deposit>(a);
    }
    return {};
  }

  static Decoded decode(const DecodeArgs& a) noexcept {
    const DefaultFloatingPoint environment;
    if constexpr (Family::kFixedSize)
      if (a.wire_bytes != Family::wire_bytes(a.n, a.params)) return Decoded::malformed;
    const bool stream = a.stream && a.base != a.x;  // in place, x is in the cache already
    const Decoded result =
        a.base ? Family::template decode_as<true>(a, stream) : Family::template decode_as<false>(a, stream);
    if (stream) _mm_sfence();
    return result;
  }

  // For families that say kSums: they have decode_sum_as<kAdd>.
  static Decoded decode_sum(const DecodeArgs& a, std::span<const WireView> wires) noexcept {
    const DefaultFloatingPoint environment;
    if constexpr (Family::kFixedSize)
      for (const WireView& wire : wires)
        if (wire.size() != Family::wire_bytes(a.n, a.params)) return Decoded::malformed;
    const bool stream = a.stream && a.base != a.x;
    const Decoded result = a.base ? Family::template decode_sum_as<true>(a, wires, stream)
                                  : Family::template decode_sum_as<false>(a, wires, stream);
    if (stream) _mm_sfence();
    return result;
  }
};

// The number of wires that are decoded together: a constant for one, and for two without base, which is all
// that two ranks need.
template <class Count>
inline constexpr std::size_t kMostOf = kMostSummed;
template <std::size_t kCount>
inline constexpr std::size_t kMostOf<std::integral_constant<std::size_t, kCount>> = kCount;
// Calls run(count) with the number of wires of a sum.
template <bool kAdd, class Run>
MQ_INLINE auto count_by(std::size_t wires, Run&& run) {
  if constexpr (!kAdd)
    if (wires == 2) return run(std::integral_constant<std::size_t, 2>{});
  return run(wires);
}
