// bf16: every element rounded to bfloat16 (8 exponent bits, 7 mantissa bits), ties to even. The dense
// baseline of every sweep. Doubles are rounded to float first. Relative error of normal values at most 2^-8
// (2^-9 of the power of two above); values beyond 3.39e38 become infinite. Wire: n little-endian 16-bit
// words, 2 n bytes.

struct Bf16 {
  static constexpr std::string_view kName = "bf16";
  static constexpr std::string_view kWhat = "bfloat16, round to nearest even: the dense half-size baseline";
  static constexpr std::uint16_t kId = 2;
  static constexpr bool kLossless = false;
  static constexpr std::array<ParamSpec, 0> kSpecs{};
  static constexpr std::size_t block(const Params&) { return kLanes; }
  template <class T>
  static constexpr std::size_t code_bytes(std::size_t n) {
    return 2 * n;
  }
  template <class T, class W>
  static MQ_INLINE Lanes<T> put(const Lanes<T>& v, NoScale, std::byte* codes, W width) {
    T element[kLanes];
    v.store(reinterpret_cast<std::byte*>(element), Whole{});
    std::uint16_t code[kLanes];
    for (int i = 0; i < kLanes; ++i)
      code[i] = bf16_from_bits(std::bit_cast<std::uint32_t>(static_cast<float>(element[i])));
    std::memcpy(codes, code, 2 * width.count);
    return widen<T>(code);
  }
  template <class T, class W>
  static MQ_INLINE Lanes<T> get(NoScale, const std::byte* codes, W width) {
    std::uint16_t code[kLanes] = {};
    std::memcpy(code, codes, 2 * width.count);
    return widen<T>(code);
  }

 private:
  template <class T>
  static MQ_INLINE Lanes<T> widen(const std::uint16_t* code) {
    T element[kLanes];
    for (int i = 0; i < kLanes; ++i)
      element[i] = static_cast<T>(std::bit_cast<float>(bits_from_bf16(code[i])));
    return Lanes<T>::load(reinterpret_cast<const std::byte*>(element), Whole{});
  }
};
