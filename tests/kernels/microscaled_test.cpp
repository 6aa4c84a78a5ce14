// The OCP Microscaling formats (mxfp8, mxfp6, mxfp4): every code stands for the number of the OCP text, every number between
// two of them goes to the nearer one, and the scale is the one of the text.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

// Table of section 5.3 of the OCP text: bits of exponent and mantissa, the exponent's bias, the greatest number and its
// power of two.
struct Format {
  const char* codec;
  NamedValues values;
  int exponent, mantissa, bias;
  double most;
  int most_power;
  int bits() const { return 1 + exponent + mantissa; }
  // The number that a code without its sign stands for.
  double value(int code) const {
    const int field = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
    const double share = std::ldexp(fraction, -mantissa);
    return field == 0 ? std::ldexp(share, 1 - bias) : std::ldexp(1 + share, field - bias);
  }
};
const std::vector<Format>& formats() {
  static const std::vector<Format> all{{"mxfp8", {{"format", 0}}, 4, 3, 7, 448, 8},
                                       {"mxfp8", {{"format", 1}}, 5, 2, 15, 57344, 15},
                                       {"mxfp6", {{"format", 0}}, 2, 3, 1, 7.5, 2},
                                       {"mxfp6", {{"format", 1}}, 3, 2, 3, 28, 4},
                                       {"mxfp4", {}, 2, 1, 1, 6, 2}};
  return all;
}

template <class F>
void for_each_format(const F& property) {
  for (const Format& format : formats())
    for_each_isa(format.codec, format.values, [&](const auto& row) { property(format, row); });
}

// One group of 32 that begins with the greatest number, so that the scale is 1.
template <class T>
std::vector<T> group_of(const Format& format, const std::vector<double>& values) {
  std::vector<T> x(32);
  x[0] = static_cast<T>(format.most);
  for (std::size_t i = 0; i < values.size(); ++i) x[1 + i] = static_cast<T>(values[i]);
  return x;
}

template <class T>
std::size_t scale_bytes() {
  return sizeof(T) == 4 ? 1 : 2;
}
template <class T>
int scale_of(const std::vector<std::byte>& wire) {
  int scale = 0;
  std::memcpy(&scale, wire.data(), scale_bytes<T>());
  return scale;
}

// Code i of a group that is packed as host/packed-inl.hpp says; codes of 4, 6 and 8 bits.
int code_of(const std::byte* group, int bits, std::size_t i) {
  if (bits == 8) return std::to_integer<int>(group[i]);
  const int low = std::to_integer<int>(group[i % 16]) >> (i / 16 * 4) & 15;
  return bits == 4 ? low : low | (std::to_integer<int>(group[16 + i % 8]) >> (i / 8 * 2) & 3) << 4;
}

TEST(Microscaled, every_code_is_the_number_of_the_ocp_text) {
  for_each_format([](const Format& format, const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    int code = 0;
    for (; format.value(code) < format.most; ++code)
      for (const double sign : {1.0, -1.0}) {
        const auto x = group_of<T>(format, {sign * format.value(code)});
        const Coded<T> got = row.run(x, {}, Feedback::none);
        ASSERT_EQ(scale_of<T>(got.wire), sizeof(T) == 4 ? 127 : 1023) << row.describe(32, "");
        const int expected = code | (sign < 0 ? 1 << (format.bits() - 1) : 0);
        ASSERT_EQ(code_of(got.wire.data() + scale_bytes<T>(), format.bits(), 1), expected)
            << row.describe(32, "");
        ASSERT_EQ(got.decoded, x) << row.describe(32, "");
      }
    EXPECT_EQ(format.value(code), format.most) << "all codes up to the greatest were seen";
  });
}

TEST(Microscaled, numbers_between_two_codes_go_to_the_nearer_and_ties_to_the_even_code) {
  for_each_format([](const Format& format, const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (int code = 0; format.value(code) < format.most; ++code) {
      const double low = format.value(code), high = format.value(code + 1);
      const T tie = static_cast<T>((low + high) / 2), inf = std::numeric_limits<T>::infinity();
      const T below = std::nextafter(tie, -inf), above = std::nextafter(tie, inf);
      const auto x = group_of<T>(format, {static_cast<double>(tie), static_cast<double>(below),
                                          static_cast<double>(above), -static_cast<double>(above)});
      const auto y = row.run(x, {}, Feedback::none).decoded;
      ASSERT_EQ(y[1], static_cast<T>(code % 2 == 0 ? low : high)) << row.describe(32, "tie") << low;
      ASSERT_EQ(y[2], static_cast<T>(low)) << row.describe(32, "below the tie") << low;
      ASSERT_EQ(y[3], static_cast<T>(high)) << row.describe(32, "above the tie") << low;
      ASSERT_EQ(y[4], static_cast<T>(-high)) << row.describe(32, "below zero") << low;
    }
  });
}

TEST(Microscaled, the_scale_is_the_power_of_two_of_the_greatest_magnitude_less_that_of_the_format) {
  for_each_format([](const Format& format, const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr int kBias = std::numeric_limits<T>::max_exponent - 1;
    for (int power = 1 - kBias; power <= kBias; power += kBias / 60)
      for (const double share : {1.0, 1.5, 1.984375}) {
        std::vector<T> x(32, T{0});
        x[7] = -std::ldexp(static_cast<T>(share), power);
        const Coded<T> got = row.run(x, {}, Feedback::none);
        ASSERT_EQ(scale_of<T>(got.wire), std::max(0, power + kBias - format.most_power))
            << row.describe(32, "") << power;
        ASSERT_NEAR(static_cast<double>(got.decoded[7] / x[7]), 1, 2 * row.codec->error_bound(row.params))
            << power;
      }
  });
}

TEST(Microscaled, numbers_beyond_the_greatest_become_the_greatest_and_feedback_keeps_the_rest) {
  for_each_format([](const Format& format, const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const T beyond = std::nextafter(static_cast<T>(std::ldexp(1.0, format.most_power + 1)), T{0});
    std::vector<T> x(32, beyond);
    const Coded<T> got = row.run(x, std::vector<T>(32), Feedback::carry);
    EXPECT_EQ(got.decoded, std::vector<T>(32, static_cast<T>(format.most))) << row.describe(32, "");
    EXPECT_EQ(got.residual, std::vector<T>(32, beyond - static_cast<T>(format.most))) << row.describe(32, "");
  });
}

TEST(Microscaled, refuse_scales_codes_marks_and_padding_that_encode_cannot_write) {
  for_each_format([](const Format& format, const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 35, head = 2 * scale_bytes<T>(), last = scale_bytes<T>() == 1 ? 0xfe : 0x7fe;
    const auto wire = row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none).wire;
    std::vector<T> out(n);
    const auto decode = [&](const std::vector<std::byte>& hostile) {
      return row.decode(hostile, n, nullptr, out.data());
    };
    auto hostile = wire;
    std::memcpy(hostile.data(), &last, scale_bytes<T>());
    EXPECT_EQ(decode(hostile), kernels::Decoded::malformed) << row.describe(n, "a scale beyond all numbers");
    hostile = wire;
    hostile.back() |= std::byte{0x80};
    EXPECT_EQ(decode(hostile), kernels::Decoded::malformed) << row.describe(n, "padding");
    if (format.bits() == 8) {  // codes for NaN and Inf
      hostile = wire;
      hostile[head] = std::byte{0xff};
      EXPECT_EQ(decode(hostile), kernels::Decoded::malformed) << row.describe(n, "code");
    }
    hostile = wire;
    const std::uint64_t marked = ~std::uint64_t{0};
    std::memcpy(hostile.data(), &marked, scale_bytes<T>());
    EXPECT_EQ(decode(hostile), kernels::Decoded::malformed) << row.describe(n, "marks of normal codes");
    std::fill_n(hostile.begin() + static_cast<std::ptrdiff_t>(head), 4 * format.bits(), std::byte{0});
    EXPECT_EQ(decode(hostile), kernels::Decoded::malformed) << row.describe(n, "marks without a mark");
  });
}

TEST(Microscaled, take_the_bytes_that_the_table_says) {
  const std::size_t n = 1 << 16;
  for (const Format& format : formats()) {
    const Row<float> row = fastest(format.codec, format.values);
    EXPECT_EQ(row.bound(n), n / 32 + n * static_cast<std::size_t>(format.bits()) / 8) << format.codec;
  }
}

}  // namespace
}  // namespace mq::test
