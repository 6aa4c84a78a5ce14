// f16: every element rounded to IEEE 754 half (5 exponent bits, 10 mantissa bits), ties to even. It is eight
// times as exact as bf16 where the range allows it. The relative error is at most 2^-11 from 2^-14 to 65504;
// below, the absolute error is at most 2^-25. Values from 65520 on become infinite and leave no residual.

struct F16 : HalfCodec<F16Format> {
  static constexpr std::string_view kName = "f16";
  static constexpr std::string_view kWhat = "IEEE half, round to nearest even; infinite from 65520 on";
  static constexpr std::uint16_t kId = 4;
};
