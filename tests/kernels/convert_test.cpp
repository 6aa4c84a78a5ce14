// The conversions between the half types and float, on every instruction set: against an independent
// reference in double, exhaustively where there are few values.

#include "kernels/convert.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/hd.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Element;
using kernels::Isa;

static_assert(kernels::f16_from_bits(0x3f800000u) == 0x3c00 && kernels::bits_from_f16(0x3c00) == 0x3f800000u);
static_assert(kernels::f16_from_bits(0x33800000u) == 0x0001 && kernels::bits_from_f16(0x0001) == 0x33800000u);

// A binary format of 16 bits.
struct Format {
  Element element;
  int mantissa_bits, min_exponent, max_exponent;  // exponents of normal values
};
constexpr Format kFormats[]{{Element::f16, 10, -14, 15}, {Element::bf16, 7, -126, 127}};

std::uint32_t exponent_field(const Format& f) { return (0x7fffu >> f.mantissa_bits) << f.mantissa_bits; }

// What the code stands for; NaN keeps sign and payload and is quiet.
std::uint32_t float_bits(const Format& f, std::uint16_t code) {
  const std::uint32_t magnitude = code & 0x7fffu, sign = static_cast<std::uint32_t>(code & 0x8000u) << 16;
  const auto mantissa = static_cast<int>(magnitude & ((1u << f.mantissa_bits) - 1));
  const auto field = static_cast<int>(magnitude >> f.mantissa_bits);
  if (magnitude > exponent_field(f))
    return sign | 0x7fc00000u | static_cast<std::uint32_t>(mantissa) << (23 - f.mantissa_bits);
  if (magnitude == exponent_field(f)) return sign | 0x7f800000u;
  const double significand = field == 0 ? mantissa : mantissa + (1 << f.mantissa_bits);
  const double value = std::ldexp(significand, std::max(field, 1) - 1 + f.min_exponent - f.mantissa_bits);
  return sign | std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

// v rounded to the format, ties to even; v is not NaN.
double rounded(const Format& f, double v) {
  if (v == 0 || std::isinf(v)) return v;
  const int exponent = std::max(std::ilogb(v), f.min_exponent) - f.mantissa_bits;
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(v, -exponent)), exponent);
  return std::abs(nearest) >= std::ldexp(1.0, f.max_exponent + 1)
             ? std::copysign(std::numeric_limits<double>::infinity(), v)
             : nearest;
}

std::vector<std::uint16_t> all_codes() {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  return codes;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& v) {
  std::vector<std::uint32_t> bits;
  for (const float x : v) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

std::vector<float> widened(const Format& f, Isa isa, const std::vector<std::uint16_t>& codes) {
  std::vector<float> out(codes.size());
  kernels::convert(f.element, isa)->widen(codes.data(), out.data(), codes.size());
  return out;
}

std::vector<std::uint16_t> narrowed(const Format& f, Isa isa, const std::vector<float>& v) {
  std::vector<std::uint16_t> codes(v.size());
  kernels::convert(f.element, isa)->narrow(v.data(), codes.data(), nullptr, v.size());
  return codes;
}

template <class F>
void for_each_conversion(const F& property) {
  for (const Format& format : kFormats)
    for (const Isa isa : kernels::kIsas)
      if (isa <= kernels::best_isa())
        property(format, isa, std::string(name(format.element)) + " " + std::string(name(isa)) + " ");
}

TEST(Convert, exists_for_the_half_types_only) {
  for (const Element element : kernels::kElements)
    EXPECT_EQ(kernels::convert(element, Isa::scalar) != nullptr, kernels::element_bytes(element) == 2);
}

TEST(Convert, every_code_widens_to_its_value) {
  for_each_conversion([](const Format& f, Isa isa, const std::string& where) {
    const auto codes = all_codes();
    const auto got = bits_of(widened(f, isa, codes));
    for (const std::uint16_t code : codes) ASSERT_EQ(got[code], float_bits(f, code)) << where << code;
  });
}

TEST(Convert, every_code_comes_back_and_a_nan_comes_back_quiet) {
  for_each_conversion([](const Format& f, Isa isa, const std::string& where) {
    const auto codes = all_codes();
    const auto got = narrowed(f, isa, widened(f, isa, codes));
    for (const std::uint16_t code : codes) {
      const bool nan = (code & 0x7fffu) > exponent_field(f);
      const std::uint32_t quiet = nan ? 1u << (f.mantissa_bits - 1) : 0;
      ASSERT_EQ(got[code], code | quiet) << where << code;
    }
  });
}

// Random bit patterns; every value of the format, every tie between neighbours, and the floats beside both.
std::vector<float> interesting_floats(const Format& f) {
  std::vector<float> v;
  std::mt19937_64 random(seed());
  for (int i = 0; i < 200000; ++i) v.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (std::uint32_t code = 0; code < exponent_field(f); ++code) {
    const double low = std::bit_cast<float>(float_bits(f, static_cast<std::uint16_t>(code)));
    const double step =
        std::ldexp(1.0, std::max(low == 0 ? -1000 : std::ilogb(low), f.min_exponent) - f.mantissa_bits);
    for (const double value : {low, low + step / 2}) {
      const auto x = static_cast<float>(value);
      for (const float y : {x, std::nextafter(x, 0.0F), std::nextafter(x, INFINITY)})
        for (const float z : {y, -y}) v.push_back(z);
    }
  }
  return v;
}

TEST(Convert, narrowing_rounds_to_nearest_even) {
  for_each_conversion([](const Format& f, Isa isa, const std::string& where) {
    const auto v = interesting_floats(f);
    const auto codes = narrowed(f, isa, v);
    for (std::size_t i = 0; i < v.size(); ++i) {
      const auto got = std::bit_cast<float>(float_bits(f, codes[i]));
      if (std::isnan(v[i])) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(v[i]) >> (23 - f.mantissa_bits);
        const std::uint32_t payload = bits & ((1u << f.mantissa_bits) - 1),
                            quiet = 1u << (f.mantissa_bits - 1);
        const std::uint32_t sign = std::signbit(v[i]) ? 0x8000u : 0;
        ASSERT_EQ(codes[i], sign | exponent_field(f) | quiet | payload) << where << "NaN";
      } else {
        ASSERT_EQ(static_cast<double>(got), rounded(f, static_cast<double>(v[i]))) << where << v[i];
        ASSERT_EQ(std::signbit(got), std::signbit(v[i])) << where << v[i];
      }
    }
  });
}

TEST(Convert, narrowing_adds_its_loss_to_the_residual_of_values_that_stay_finite) {
  for_each_conversion([](const Format& f, Isa isa, const std::string& where) {
    const auto v = interesting_floats(f);
    const auto before = make_input<float>(Input::tiny, v.size(), seed());
    std::vector<float> residual = before;
    std::vector<std::uint16_t> codes(v.size());
    kernels::convert(f.element, isa)->narrow(v.data(), codes.data(), residual.data(), v.size());
    EXPECT_EQ(codes, narrowed(f, isa, v)) << where;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const auto half = std::bit_cast<float>(float_bits(f, codes[i]));
      const float expected = std::isfinite(half) ? before[i] + (v[i] - half) : before[i];
      ASSERT_EQ(residual[i], expected) << where << v[i];
    }
  });
}

TEST(Convert, any_length_and_alignment_gives_the_same_and_writes_nothing_outside) {
  for_each_conversion([](const Format& f, Isa isa, const std::string& where) {
    const auto x = make_input<float>(Input::normal, 70, seed());
    const auto codes = narrowed(f, Isa::scalar, x);
    const auto values = widened(f, Isa::scalar, codes);
    for (std::size_t n = 0; n <= x.size(); ++n)
      for (const std::size_t shift : {0, 1, 2, 4, 63}) {
        Guarded<float> in(n * 4, shift), out(n * 4, shift), residual(n * 4, shift);
        Guarded<std::uint16_t> half(n * 2, shift);
        in.set({x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n)});
        residual.set(std::vector<float>(n, 1.0F));
        kernels::convert(f.element, isa)->narrow(in.data(), half.data(), residual.data(), n);
        kernels::convert(f.element, isa)->widen(half.data(), out.data(), n);
        ASSERT_TRUE(in.intact() && out.intact() && residual.intact() && half.intact()) << where << n;
        const auto got = half.get(n);
        const auto wide = out.get(n), kept = residual.get(n);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(got[i], codes[i]) << where << n;
          ASSERT_EQ(wide[i], values[i]) << where << n;
          ASSERT_EQ(kept[i], 1.0F + (x[i] - values[i])) << where << n;
        }
      }
  });
}

TEST(Convert, ignores_and_restores_the_callers_floating_point_mode) {
#ifdef __SSE2__
  for_each_conversion([](const Format& f, Isa isa, const std::string& where) {
    const auto codes = all_codes();
    const auto values = widened(f, isa, codes);
    const auto x = make_input<float>(Input::subnormal, 1000, seed());
    const auto expected = narrowed(f, isa, x);
    const unsigned saved = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(saved | 0xe040);  // flush to zero, denormals are zero, round towards zero
    const unsigned set = __builtin_ia32_stmxcsr();
    const auto got_values = widened(f, isa, codes);
    const auto got = narrowed(f, isa, x);
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(saved);
    EXPECT_EQ(after, set) << where;
    EXPECT_EQ(bits_of(got_values), bits_of(values)) << where;
    EXPECT_EQ(got, expected) << where;
  });
#endif
}

}  // namespace
}  // namespace mq::test
