// bf16: every element rounded to bfloat16 (8 exponent bits, 7 mantissa bits), ties to even. It is the dense
// baseline of every sweep. The relative error of normal values is at most 2^-8 (2^-9 of the next power of two
// above). Values beyond 3.39e38 become infinite.

struct Bf16 : HalfCodec<Bf16Format> {
  static constexpr std::string_view kName = "bf16";
  static constexpr std::string_view kWhat = "bfloat16, round to nearest even: the dense half-size baseline";
  static constexpr std::uint16_t kId = 2;
  static constexpr double error_bound(const Params&) { return 0x1p-8; }
};
