// The OCP Microscaling formats (mxfp8, mxfp6, mxfp4), minifloat and NVFP4: every code stands for the number
// of the OCP text, every number between two of them goes to the nearer one, and the scale is the one of the
// text.

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

// Table of section 5.3 of the OCP text: bits of exponent and mantissa, the exponent's bias, the greatest
// number and its power of two.
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
std::vector<Format> make_formats() {
  std::vector<Format> all{{"mxfp8", {{"format", 0}}, 4, 3, 7, 448, 8},
                          {"mxfp8", {{"format", 1}}, 5, 2, 15, 57344, 15},
                          {"mxfp6", {{"format", 0}}, 2, 3, 1, 7.5, 2},
                          {"mxfp6", {{"format", 1}}, 3, 2, 3, 28, 4},
                          {"mxfp4", {}, 2, 1, 1, 6, 2}};
  // minifloat: all codes are numbers.
  for (int exponent = 1; exponent <= 5; ++exponent)
    for (int mantissa = 1; mantissa <= 4 && exponent + mantissa <= 7; ++mantissa) {
      const int bias = (1 << (exponent - 1)) - 1, power = (1 << exponent) - 1 - bias;
      all.push_back({"minifloat",
                     {{"exp", exponent}, {"man", mantissa}},
                     exponent,
                     mantissa,
                     bias,
                     std::ldexp(2 - std::ldexp(1.0, -mantissa), power),
                     power});
    }
  return all;
}
const std::vector<Format>& formats() {
  static const std::vector<Format> all = make_formats();
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

// Code i of a group that is packed as host/packed-inl.hpp says.
int code_of(const std::byte* group, int bits, std::size_t i) {
  if (bits == 8) return std::to_integer<int>(group[i]);
  int code = 0, shift = 0;
  const auto take = [&](std::size_t byte, std::size_t at, int width) {
    code |= (std::to_integer<int>(group[byte]) >> at & ((1 << width) - 1)) << shift;
    shift += width;
  };
  if ((bits & 4) != 0) {
    take(i % 16, i / 16 * 4, 4);
    group += 16;
  }
  if ((bits & 2) != 0) {
    take(i % 8, i / 8 * 2, 2);
    group += 8;
  }
  if ((bits & 1) != 0) take(i / 8, i % 8, 1);
  return code;
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
    if (row.codec->name == "mxfp8") {  // codes for NaN and Inf
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

// The formats of NVFP4's elements and scales, as above.
const Format kE2M1{"nvfp4", {}, 2, 1, 1, 6, 2}, kE4M3{"nvfp4", {}, 4, 3, 7, 448, 8};

// The number of the format that is nearest to v >= 0.
double nearest(const Format& format, double v) {
  double best = 0;
  for (int code = 0; format.value(code) <= format.most; ++code)
    if (std::abs(format.value(code) - v) < std::abs(best - v)) best = format.value(code);
  return best;
}

TEST(NvFp4, units_scales_and_codes_are_those_of_the_definition) {
  for_each_isa("nvfp4", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 1024 + 40;
    auto x = make_input<T>(Input::normal, n, seed());
    for (std::size_t i = 0; i < n; ++i)
      x[i] *= std::ldexp(T{1}, -static_cast<int>(i / 16 % 8));  // groups differ
    const Coded<T> got = row.run(x, {}, Feedback::none);
    const std::byte* at = got.wire.data();
    for (std::size_t begin = 0; begin < n; begin += 1024) {
      const std::size_t end = std::min(n, begin + 1024), groups = (end - begin + 31) / 32;
      T unit;
      std::memcpy(&unit, at, sizeof unit);
      double most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(static_cast<double>(x[i])));
      ASSERT_NEAR(static_cast<double>(unit) * 6 * 448 / most, 1, 1e-6) << row.describe(n, "");
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t group = (i - begin) / 16, in_group = (i - begin) % 32;
        double of_group = 0;
        for (std::size_t j = begin + group * 16; j < std::min(end, begin + group * 16 + 16); ++j)
          of_group = std::max(of_group, std::abs(static_cast<double>(x[j])));
        const double scale = kE4M3.value(std::to_integer<int>(at[sizeof(T) + group]));
        const double wanted = of_group / 6 / static_cast<double>(unit);
        ASSERT_NEAR(scale, nearest(kE4M3, wanted), 1e-5 * wanted) << row.describe(n, "") << i;
        const int code = code_of(at + sizeof(T) + 2 * groups + (i - begin) / 32 * 16, 4, in_group);
        const double value =
            kE2M1.value(code & 7) * scale * static_cast<double>(unit) * ((code & 8) != 0 ? -1 : 1);
        ASSERT_NEAR(static_cast<double>(got.decoded[i]), value, 1e-6 * std::abs(value))
            << row.describe(n, "") << i;
        const double share = std::abs(static_cast<double>(x[i])) / (scale * static_cast<double>(unit));
        ASSERT_LE(std::abs(kE2M1.value(code & 7) - share), std::abs(nearest(kE2M1, share) - share) + 1e-5)
            << i;
      }
      at += sizeof(T) + groups * 18;
    }
    ASSERT_EQ(at, got.wire.data() + got.wire.size()) << row.describe(n, "");
  });
}

TEST(NvFp4, a_nan_marks_its_sixteen_and_no_others) {
  for_each_isa("nvfp4", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    auto x = make_input<T>(Input::normal, 100, seed());
    x[20] = std::numeric_limits<T>::quiet_NaN();
    x[25] = -std::numeric_limits<T>::infinity();
    const Coded<T> got = row.run(x, std::vector<T>(100), Feedback::carry);
    EXPECT_EQ(got.nonfinite, 2u);
    EXPECT_TRUE(std::isnan(got.decoded[20]));
    EXPECT_EQ(got.decoded[25], x[25]);
    for (std::size_t i = 0; i < 100; ++i) {
      if (i / 16 == 1) {
        EXPECT_EQ(got.residual[i], std::isfinite(x[i]) ? x[i] : T{0}) << row.describe(100, "") << i;
        if (std::isfinite(x[i])) {
          EXPECT_EQ(got.decoded[i], T{0}) << i;
        }
      } else {
        EXPECT_TRUE(std::isfinite(got.decoded[i]) && std::abs(got.decoded[i] - x[i]) < T{1}) << i;
      }
    }
  });
}

TEST(NvFp4, refuses_units_scales_and_padding_that_encode_cannot_write) {
  for_each_isa("nvfp4", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 35;
    const auto wire = row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none).wire;
    std::vector<T> out(n);
    const auto expect_refused = [&](const auto& change, const char* what) {
      auto hostile = wire;
      change(hostile);
      EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), kernels::Decoded::malformed)
          << row.describe(n, what);
    };
    for (const T unit : {T{-1}, std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                         std::numeric_limits<T>::max()})
      expect_refused([&](auto& w) { std::memcpy(w.data(), &unit, sizeof unit); }, "unit");
    expect_refused([](auto& w) { w[sizeof(T)] = std::byte{0x80}; }, "a negative scale");
    expect_refused([](auto& w) { std::fill_n(w.begin() + sizeof(T), 1, std::byte{0x7f}); },
                   "marks of normal codes");
    expect_refused([](auto& w) { w.back() |= std::byte{0x80}; }, "padding");
  });
}

}  // namespace
}  // namespace mq::test
