// Thirty-two lanes: the unit in which every codec is written, whatever the width of a register. A CUDA warp
// is the same unit with one lane per thread, so codecs and loops carry over. Included once per instruction
// set, after its native_*-inl.hpp.
#pragma once

struct Whole {
  static constexpr std::size_t count = kLanes;
  static constexpr std::uint32_t bits = 0xffffffffu;
};
struct Part {  // the last, incomplete group of a vector: 1 to 31 lanes
  std::size_t count;
  std::uint32_t bits;
  explicit MQ_INLINE Part(std::size_t n) : count(n), bits((1u << n) - 1u) {}
};

// Stores 32 lanes past the caches. The address must be a multiple of 16 bytes, as malloc's are. Call
// _mm_sfence() after the last store.
struct Streamed {};

template <class T>
struct Lanes {
  using N = Native<T>;
  static constexpr int kRegs = kLanes / N::kWidth;
  static constexpr std::size_t kRegBytes = sizeof(T) * N::kWidth;
  typename N::Reg r[kRegs];

  static MQ_INLINE Lanes load(const std::byte* p, Whole) {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::load(p + i * kRegBytes);
    return v;
  }
  static MQ_INLINE Lanes load(const std::byte* p, Part part) {  // missing lanes are +0
    std::byte padded[kLanes * sizeof(T)] = {};
    std::memcpy(padded, p, part.count * sizeof(T));
    return load(padded, Whole{});
  }
  MQ_INLINE void store(std::byte* p, Whole) const {
    for (int i = 0; i < kRegs; ++i) N::store(p + i * kRegBytes, r[i]);
  }
  MQ_INLINE void store(std::byte* p, Part part) const {
    std::byte padded[kLanes * sizeof(T)];
    store(padded, Whole{});
    std::memcpy(p, padded, part.count * sizeof(T));
  }
  // Whole registers reach memory faster than parts of 16 bytes on some processors (a Xeon, by 7 to 23 % of a
  // decode; not an EPYC). The vectors of programs are often at multiples of 16 only. One loop for both,
  // because each compiled loop is one for every codec.
  MQ_INLINE void store(std::byte* p, Streamed) const {
    if (reinterpret_cast<std::uintptr_t>(p) % kRegBytes == 0)
      for (int i = 0; i < kRegs; ++i) N::stream(p + i * kRegBytes, r[i]);
    else
      for (int i = 0; i < kRegs; ++i) N::stream_parts(p + i * kRegBytes, r[i]);
  }
  static MQ_INLINE Lanes all(T x) {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::all(x);
    return v;
  }
  friend MQ_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::add(a.r[i], b.r[i]);
    return v;
  }
  friend MQ_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::sub(a.r[i], b.r[i]);
    return v;
  }
  friend MQ_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::mul(a.r[i], b.r[i]);
    return v;
  }
  // Each lane within [low, high]. No lane is NaN.
  MQ_INLINE Lanes clamped(const Lanes& low, const Lanes& high) const { return not_below(low).at_most(high); }
  // The greater of `most`, which is not negative, and |v|. NaN and infinities are greater than any number.
  static MQ_INLINE Lanes greatest_magnitude(const Lanes& most, const Lanes& v) {
    Lanes m;
    for (int i = 0; i < kRegs; ++i) m.r[i] = N::greatest_magnitude(most.r[i], v.r[i]);
    return m;
  }
  // The greatest magnitude of all lanes, and of the lower or the upper half of them.
  MQ_INLINE T greatest_of_lanes() const { return greatest_of(0, kRegs); }
  MQ_INLINE T greatest_of_half(int half) const { return greatest_of(half * kRegs / 2, kRegs / 2); }
  // Bit patterns: constants, shifts, and, or, and the sum and the difference of integers.
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static MQ_INLINE Lanes all_bits(Bits bits) { return all(std::bit_cast<T>(bits)); }
  MQ_INLINE Lanes bits_right(int n) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::bits_right(r[i], n);
    return v;
  }
  MQ_INLINE Lanes bits_left(int n) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::bits_left(r[i], n);
    return v;
  }
  MQ_INLINE Lanes bits_and(const Lanes& b) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::bits_and(r[i], b.r[i]);
    return v;
  }
  MQ_INLINE Lanes bits_or(const Lanes& b) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::bits_or(r[i], b.r[i]);
    return v;
  }
  MQ_INLINE Lanes bits_add(const Lanes& b) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::bits_add(r[i], b.r[i]);
    return v;
  }
  MQ_INLINE Lanes bits_subtract(const Lanes& b) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::bits_subtract(r[i], b.r[i]);
    return v;
  }
  // The lesser and the greater of bit patterns as signed integers.
  MQ_INLINE Lanes bits_least(const Lanes& b) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::bits_least(r[i], b.r[i]);
    return v;
  }
  MQ_INLINE Lanes bits_greatest(const Lanes& b) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::bits_greatest(r[i], b.r[i]);
    return v;
  }
  // The bits that are set in any lane.
  MQ_INLINE Bits any_lane() const {
    Lanes v = *this;
    for (int n = kRegs / 2; n > 0; n /= 2)
      for (int i = 0; i < n; ++i) v.r[i] = N::bits_or(v.r[i], v.r[i + n]);
    return N::any_lane(v.r[0]);
  }
  static MQ_INLINE Lanes of_byte_bits(const Bytes& bytes) {  // the bit patterns 0 to 255
    Lanes v;
    N::of_byte_bits(bytes, v.r);
    return v;
  }
  // Lane by lane. No lane is NaN.
  MQ_INLINE Lanes at_most(const Lanes& high) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::least(r[i], high.r[i]);
    return v;
  }
  MQ_INLINE Lanes not_below(const Lanes& low) const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::greatest(r[i], low.r[i]);
    return v;
  }
  // The lowest byte of each lane's bit pattern.
  MQ_INLINE Bytes low_bytes() const { return N::low_bytes(r); }
  // The signs of the lanes as the highest bits of bytes, whose other bits are arbitrary.
  MQ_INLINE Bytes sign_bytes() const { return N::sign_bytes(r); }
  // Small floats with so many bits of exponent and mantissa, taken for halves whose other bits are 0.
  static constexpr bool kConvertsHalves = requires(const Bytes& codes, typename N::Reg (&to)[kRegs]) {
    N::of_small_halves(codes, 1, 1, to);
  };
  static MQ_INLINE Lanes of_small_halves(const Bytes& codes, int exponent, int mantissa) {
    Lanes v;
    N::of_small_halves(codes, exponent, mantissa, v.r);
    return v;
  }
  // Bytes as numbers from -128 to 127.
  static MQ_INLINE Lanes of_signed_bytes(const Bytes& bytes) {
    Lanes v;
    N::of_signed_bytes(bytes, v.r);
    return v;
  }

  // One truth value per lane.
  struct Mask {
    typename N::Mask m[kRegs];
    MQ_INLINE std::uint32_t bits() const {  // bit i is lane i
      std::uint32_t b = 0;
      for (int i = 0; i < kRegs; ++i) b |= N::bits(m[i]) << (i * N::kWidth);
      return b;
    }
  };
  // Lane i is true if bit i is set.
  static MQ_INLINE Mask mask_of(std::uint32_t bits) {
    Mask mask;
    for (int i = 0; i < kRegs; ++i) mask.m[i] = N::from_bits(bits >> (i * N::kWidth));
    return mask;
  }
  MQ_INLINE Mask at_least(const Lanes& t) const {  // -0 is at least +0; false for NaN
    Mask mask;
    for (int i = 0; i < kRegs; ++i) mask.m[i] = N::at_least(r[i], t.r[i]);
    return mask;
  }
  MQ_INLINE Mask finite() const {
    Mask mask;
    for (int i = 0; i < kRegs; ++i) mask.m[i] = N::finite(r[i]);
    return mask;
  }
  MQ_INLINE bool all_finite() const {
    auto most = N::abs(r[0]);
    for (int i = 1; i < kRegs; ++i) most = N::greatest_magnitude(most, r[i]);
    return N::bits(N::finite(most)) == (std::uint64_t{1} << N::kWidth) - 1;
  }
  MQ_INLINE std::uint32_t signs() const {  // bit i is set if lane i is negative or -0
    std::uint32_t b = 0;
    for (int i = 0; i < kRegs; ++i) b |= N::signs(r[i]) << (i * N::kWidth);
    return b;
  }
  MQ_INLINE Mask any_bit() const {  // false only for +0
    Mask mask;
    for (int i = 0; i < kRegs; ++i) mask.m[i] = N::any_bit(r[i]);
    return mask;
  }
  MQ_INLINE Mask ordered() const {  // not NaN
    Mask mask;
    for (int i = 0; i < kRegs; ++i) mask.m[i] = N::ordered(r[i]);
    return mask;
  }
  MQ_INLINE Lanes abs() const {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::abs(r[i]);
    return v;
  }
  static MQ_INLINE Lanes select(const Mask& mask, const Lanes& set, const Lanes& clear) {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::select(mask.m[i], set.r[i], clear.r[i]);
    return v;
  }
  // The lower half of the lanes is `low`, the upper half `high`.
  static MQ_INLINE Lanes halves(T low, T high) {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::all(i < kRegs / 2 ? low : high);
    return v;
  }
  // Lane i is `set` if bit i is set, else `clear`.
  static MQ_INLINE Lanes pick(std::uint32_t bits, T set, T clear) {
    Lanes v;
    for (int i = 0; i < kRegs; ++i) v.r[i] = N::pick(bits, i * N::kWidth, N::all(set), N::all(clear));
    return v;
  }

 private:
  MQ_INLINE T greatest_of(int first, int count) const {
    Lanes v = *this;
    v.r[first] = N::abs(r[first]);
    for (int i = first + 1; i < first + count; ++i) v.r[first] = N::greatest_magnitude(v.r[first], r[i]);
    return N::greatest_of_register(v.r[first]);
  }
};

// Whether the instruction set can pack the lanes of a mask.
template <class T>
inline constexpr bool kCompresses = requires(typename Native<T>::Reg r) {
  Native<T>::compress(0u, r);
};
// Appends the lanes whose bit is set, ascending, to a list with room for 32 more.
template <class T>
MQ_INLINE void append_lanes(T* list, std::uint32_t bits, const Lanes<T>& v) {
  using N = Native<T>;
  for (int i = 0; i < Lanes<T>::kRegs; ++i) {
    const std::uint32_t b = bits & ((1u << N::kWidth) - 1);
    N::store(reinterpret_cast<std::byte*>(list), N::compress(b, v.r[i]));
    list += std::popcount(b);
    bits >>= N::kWidth;
  }
}

// Appends these lanes to a wire with room for all 32.
template <class T>
MQ_INLINE void append_bytes(std::byte* to, std::uint32_t bits, const Lanes<T>& v) {
  if (bits == Whole::bits) {
    v.store(to, Whole{});
  } else if constexpr (kCompresses<T>) {
    append_lanes(reinterpret_cast<T*>(to), bits, v);
  } else {
    std::byte lanes[kLanes * sizeof(T)];
    v.store(lanes, Whole{});
    for (; bits != 0; bits &= bits - 1, to += sizeof(T))
      std::memcpy(to, lanes + static_cast<std::size_t>(std::countr_zero(bits)) * sizeof(T), sizeof(T));
  }
}
// The inverse: the lanes whose bit is set take the values at `from` in turn; the others are +0. Reads nothing
// at `end` or after it; there are enough values.
template <class T>
MQ_INLINE Lanes<T> expand_lanes(const std::byte* from, std::uint32_t bits, const std::byte* end) {
  using N = Native<T>;
  if (bits == Whole::bits) return Lanes<T>::load(from, Whole{});
  if constexpr (requires(typename N::Reg r) { N::expand(0u, r); }) {
    if (static_cast<std::size_t>(end - from) >= kLanes * sizeof(T)) {
      Lanes<T> v;
      for (int i = 0; i < Lanes<T>::kRegs; ++i) {
        const std::uint32_t b = bits >> (i * N::kWidth) & ((1u << N::kWidth) - 1);
        v.r[i] = N::expand(b, N::load(from));
        from += static_cast<std::size_t>(std::popcount(b)) * sizeof(T);
      }
      return v;
    }
  }
  std::byte lanes[kLanes * sizeof(T)] = {};
  for (; bits != 0; bits &= bits - 1, from += sizeof(T))
    std::memcpy(lanes + static_cast<std::size_t>(std::countr_zero(bits)) * sizeof(T), from, sizeof(T));
  return Lanes<T>::load(lanes, Whole{});
}

// Prefetches what a loop that works on group g of an array will soon read or write. The hardware prefetches
// too, but later, and not across pages.
template <class T>
MQ_INLINE void ask_ahead(const std::byte* array, std::size_t g) {
  // A distance of 1 to 8 KiB was tested; this one is about the best for every codec, element type and
  // instruction set. Multiples of 4 KiB are the worst, because such addresses share their lower bits.
  constexpr std::size_t kAhead = 2048, kGroupBytes = kLanes * sizeof(T);
  for (std::size_t line = 0; line < kGroupBytes; line += 64)
    __builtin_prefetch(array + g * kGroupBytes + kAhead + line);
}

// Two sums of one vector, split by a mask, with the same bits on every instruction set. Lane i adds elements
// i, i + 32, i + 64, ... in this order, in the element type. Then the lanes are joined in double by halving:
// lane l with l + 16, then l + 8, and so on. If all terms have one sign, the relative error of a sum is at
// most (terms per lane) 2^-24 for floats. A total is not finite if a term is not finite or a lane overflows.
// With kHuge, terms are scaled by 2^-13 first, and 4096 finite terms cannot overflow.
template <class T, bool kHuge>
struct SplitSum {
  static constexpr double kScale = kHuge ? 0x1p-13 : 1.0;
  Lanes<T> set, clear;

  MQ_INLINE SplitSum() : set(Lanes<T>::all(T{0})), clear(Lanes<T>::all(T{0})) {}
  MQ_INLINE void add(const Lanes<T>& v, const typename Lanes<T>::Mask& mask) {
    using N = Native<T>;
    for (int i = 0; i < Lanes<T>::kRegs; ++i) {
      const auto term = kHuge ? N::mul(v.r[i], N::all(static_cast<T>(kScale))) : v.r[i];
      set.r[i] = N::add_where(set.r[i], mask.m[i], term);
      clear.r[i] = N::add_where_not(clear.r[i], mask.m[i], term);
    }
  }
  static MQ_INLINE double total(const Lanes<T>& sums) {  // in units of kScale
    T lane[kLanes];
    sums.store(reinterpret_cast<std::byte*>(lane), Whole{});
    double half[kLanes / 2];
    for (int l = 0; l < kLanes / 2; ++l)
      half[l] = static_cast<double>(lane[l]) + static_cast<double>(lane[l + kLanes / 2]);
    for (int n = kLanes / 4; n > 0; n /= 2)
      for (int l = 0; l < n; ++l) half[l] += half[l + n];
    return half[0];
  }
};

// residual + error; where the sum is not finite, the residual is unchanged.
template <class L>
MQ_INLINE L deposited(const L& residual, const L& error) {
  const L sum = residual + error;
  return L::select(sum.finite(), sum, residual);
}

// Calls run(store) with the way to store whole groups at x: past the caches if that is asked for and
// possible.
template <class Run>
MQ_INLINE auto store_by(bool stream, const std::byte* x, Run&& run) {
  if constexpr (kStreams)
    if (stream && reinterpret_cast<std::uintptr_t>(x) % 16 == 0) return run(Streamed{});
  return run(Whole{});
}

// One-bit codes: bit i of byte i / 8 is lane i. Bits without an element are 0.
MQ_INLINE void store_bits(std::byte* p, std::uint32_t bits, Whole) { std::memcpy(p, &bits, sizeof bits); }
MQ_INLINE void store_bits(std::byte* p, std::uint32_t bits, Part part) {
  bits &= part.bits;
  std::memcpy(p, &bits, (part.count + 7) / 8);
}
MQ_INLINE std::uint32_t load_bits(const std::byte* p, Whole) {
  std::uint32_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}
MQ_INLINE std::uint32_t load_bits(const std::byte* p, Part part) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, p, (part.count + 7) / 8);
  return bits;
}

// Sets the processor's default floating-point environment for the duration of a call. An application that
// flushes subnormals or traps on Inf must not change the bytes, and the codec must not leave exception flags
// behind.
class DefaultFloatingPoint {
 public:
  MQ_INLINE DefaultFloatingPoint() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  MQ_INLINE ~DefaultFloatingPoint() { _mm_setcsr(saved_); }
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
  unsigned saved_;
};
