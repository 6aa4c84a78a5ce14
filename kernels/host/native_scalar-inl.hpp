// One register of each element type, for any processor: the specification the other instruction sets are
// tested against. Included inside namespace mq::kernels::scalar by targets.cpp.

template <class T>
struct Native {
  using Reg = T;
  using Mask = std::conditional_t<sizeof(T) == 4, std::int32_t,
                                  std::int64_t>;  // 0 or 1, as wide as T: so compilers vectorise
  static constexpr int kWidth = 1;
  static MQ_INLINE Reg load(const std::byte* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static MQ_INLINE void store(std::byte* p, Reg v) { std::memcpy(p, &v, sizeof v); }
  static MQ_INLINE Reg all(T v) { return v; }
  static MQ_INLINE Reg add(Reg a, Reg b) { return a + b; }
  static MQ_INLINE Reg sub(Reg a, Reg b) { return a - b; }
  static MQ_INLINE Reg mul(Reg a, Reg b) { return a * b; }
  static MQ_INLINE Mask at_least(Reg a, Reg b) { return a >= b ? 1 : 0; }
  static MQ_INLINE Mask finite(Reg v) { return std::isfinite(v) ? 1 : 0; }
  static MQ_INLINE Mask ordered(Reg v) { return v == v ? 1 : 0; }  // not NaN
  static MQ_INLINE Reg abs(Reg v) { return std::abs(v); }
  static MQ_INLINE Reg select(Mask m, Reg set, Reg clear) { return m ? set : clear; }
  static MQ_INLINE Reg add_where(Reg sum, Mask m, Reg v) { return sum + (m ? v : T{0}); }
  static MQ_INLINE Reg add_where_not(Reg sum, Mask m, Reg v) { return sum + (m ? T{0} : v); }
  static MQ_INLINE std::uint32_t bits(Mask m) { return static_cast<std::uint32_t>(m); }  // bit i is lane i
  static MQ_INLINE Mask from_bits(std::uint32_t b) {
    return static_cast<Mask>(b & 1u);
  }  // bits beyond the width are ignored
};

// Appends base + i for each bit i that is set, ascending, to a list with room for 32 more. Most groups of a
// sparse block have few: four are written without a branch.
MQ_INLINE void append_positions(std::uint32_t* list, std::uint32_t bits, std::uint32_t base) {
  for (int i = 0; i < 4; ++i) {
    list[i] = base + static_cast<std::uint32_t>(std::countr_zero(bits | 1u << 31));
    bits &= bits - 1;
  }
  for (list += 4; bits != 0; bits &= bits - 1)
    *list++ = base + static_cast<std::uint32_t>(std::countr_zero(bits));
}
