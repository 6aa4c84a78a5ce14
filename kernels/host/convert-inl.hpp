// The half types, 32 lanes at a time, and the conversion of vectors (convert.hpp). Included once per
// instruction set, after lanes-inl.hpp; the half-size codecs are made of it too.

// A format: 32 floats to codes of 16 bits, in the layout of memory, and back.
struct F16Format {
  static MQ_INLINE void narrow(const Lanes<float>& v, std::byte* codes) {
    for (int i = 0; i < Lanes<float>::kRegs; ++i)
      Native<float>::store_f16(codes + i * 2 * Native<float>::kWidth, v.r[i]);
  }
  static MQ_INLINE Lanes<float> widen(const std::byte* codes) {
    Lanes<float> v;
    for (int i = 0; i < Lanes<float>::kRegs; ++i)
      v.r[i] = Native<float>::load_f16(codes + i * 2 * Native<float>::kWidth);
    return v;
  }
};

struct Bf16Format {
  static MQ_INLINE void narrow(const Lanes<float>& v, std::byte* codes) {
    std::uint32_t bits[kLanes];
    v.store(reinterpret_cast<std::byte*>(bits), Whole{});
    std::uint16_t code[kLanes];
    for (int i = 0; i < kLanes; ++i) code[i] = bf16_from_bits(bits[i]);
    std::memcpy(codes, code, sizeof code);
  }
  static MQ_INLINE Lanes<float> widen(const std::byte* codes) {
    std::uint16_t code[kLanes];
    std::memcpy(code, codes, sizeof code);
    std::uint32_t bits[kLanes];
    for (int i = 0; i < kLanes; ++i) bits[i] = bits_from_bf16(code[i]);
    return Lanes<float>::load(reinterpret_cast<const std::byte*>(bits), Whole{});
  }
};

// The same for all or some of the lanes, with the codes anywhere in memory.
template <class Format>
struct Halves {
  static MQ_INLINE void store(const Lanes<float>& v, std::byte* codes, Whole) { Format::narrow(v, codes); }
  static MQ_INLINE void store(const Lanes<float>& v, std::byte* codes, Part part) {
    std::byte padded[2 * kLanes];
    Format::narrow(v, padded);
    std::memcpy(codes, padded, 2 * part.count);
  }
  static MQ_INLINE Lanes<float> load(const std::byte* codes, Whole) { return Format::widen(codes); }
  static MQ_INLINE Lanes<float> load(const std::byte* codes, Part part) {  // missing lanes are +0
    std::byte padded[2 * kLanes] = {};
    std::memcpy(padded, codes, 2 * part.count);
    return Format::widen(padded);
  }
};

template <class Format>
struct Convert {
  static void widen(const void* half, void* out, std::size_t n) noexcept {
    const DefaultFloatingPoint environment;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) widen_group(half, out, g, Whole{});
    if (rest) widen_group(half, out, whole, Part{rest});
  }
  static void narrow(const void* v, void* half, void* residual, std::size_t n) noexcept {
    const DefaultFloatingPoint environment;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) narrow_group(v, half, residual, g, Whole{});
    if (rest) narrow_group(v, half, residual, whole, Part{rest});
  }

 private:
  using L = Lanes<float>;
  static constexpr std::size_t kFloats = kLanes * sizeof(float), kCodes = kLanes * 2;  // bytes of a group

  template <class W>
  static MQ_INLINE void widen_group(const void* half, void* out, std::size_t g, W width) {
    const auto* codes = static_cast<const std::byte*>(half) + g * kCodes;
    Halves<Format>::load(codes, width).store(static_cast<std::byte*>(out) + g * kFloats, width);
  }
  template <class W>
  static MQ_INLINE void narrow_group(const void* in, void* half, void* residual, std::size_t g, W width) {
    const L v = L::load(static_cast<const std::byte*>(in) + g * kFloats, width);
    auto* const codes = static_cast<std::byte*>(half) + g * kCodes;
    Halves<Format>::store(v, codes, width);
    if (residual == nullptr) return;
    const L rounded = Halves<Format>::load(codes, width);
    auto* const kept = static_cast<std::byte*>(residual) + g * kFloats;
    const L before = L::load(kept, width);
    L::select(rounded.finite(), before + (v - rounded), before).store(kept, width);
  }
};

// In the order of Element::f16, Element::bf16.
inline constexpr std::array<ConvertOps, 2> kConvert{
    ConvertOps{&Convert<F16Format>::widen, &Convert<F16Format>::narrow},
    ConvertOps{&Convert<Bf16Format>::widen, &Convert<Bf16Format>::narrow}};
