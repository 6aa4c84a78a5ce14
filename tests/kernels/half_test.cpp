// The codecs of half size: rounding to nearest and at random, block scales, and what becomes infinite.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

// The error of each element is at most `relative`, or half the `unit` of subnormal codes. Doubles are rounded
// twice.
template <class Row>
void expect_half_a_unit(const Row& row, Input input, double relative, double unit) {
  using T = typename Row::Type;
  const auto x = make_input<T>(input, 4000, seed());
  const auto y = row.run(x, {}, Feedback::none).decoded;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]), error = std::abs(v - static_cast<double>(y[i]));
    ASSERT_LE(error, std::max(std::abs(v) * relative, unit / 2) * (sizeof(T) == 4 ? 1 : 1.00001))
        << row.describe(x.size(), name(input)) << v;
  }
}

TEST(Half, bf16_is_exact_to_eight_bits) {
  for_each_isa("bf16", {}, [](const auto& row) {
    for (const Input input :
         {Input::normal, Input::laplace, Input::uniform, Input::mixed_scales, Input::tiny})
      expect_half_a_unit(row, input, 0x1p-8, 0);
  });
}

TEST(Half, f16_is_exact_to_eleven_bits_and_two_to_the_minus_24) {
  for_each_isa("f16", {}, [](const auto& row) {
    for (const Input input : {Input::normal, Input::laplace, Input::uniform, Input::spikes, Input::tiny})
      expect_half_a_unit(row, input, 0x1p-11, 0x1p-24);
  });
}

TEST(Half, f16_is_infinite_from_65520_on_and_leaves_no_residual) {
  for_each_isa("f16", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::vector<T> x{T{65519}, T{65520}, T{-65519}, T{-65520}, T{1e30F}};
    const Coded<T> got = row.run(x, std::vector<T>(x.size()), Feedback::carry);
    constexpr T kInf = std::numeric_limits<T>::infinity();
    EXPECT_EQ(got.decoded, (std::vector<T>{65504, kInf, -65504, -kInf, kInf})) << row.describe(x.size(), "");
    EXPECT_EQ(got.residual, (std::vector<T>{15, 0, -15, 0, 0})) << row.describe(x.size(), "");
    EXPECT_EQ(got.nonfinite, 0u) << "counts what went in";
    EXPECT_EQ(got.overflows, 3u) << "counts what became infinite";
  });
}

TEST(Half, bf16_rounds_to_nearest_even_on_every_tie_and_beside_it) {
  const kernels::Codec& codec = *kernels::find_codec("bf16");
  const Row<float> row{&codec, {}, kernels::best_isa()};
  for (std::uint32_t upper = 0; upper < 0x7f80; ++upper) {
    std::vector<float> x;
    for (const std::uint32_t low : {0x7fffu, 0x8000u, 0x8001u})
      x.push_back(std::bit_cast<float>(upper << 16 | low));
    const auto y = row.run(x, {}, Feedback::none).decoded;
    const std::uint32_t tie = upper + (upper & 1);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[0]), upper << 16);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[1]), tie << 16);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[2]), (upper + 1) << 16);
  }
}

TEST(Half, f16_counts_what_becomes_infinite_and_nothing_that_was) {
  for_each_isa("f16", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kInf = std::numeric_limits<T>::infinity();
    std::vector<T> x(100, T{1});
    x[3] = kInf;
    x[4] = std::numeric_limits<T>::quiet_NaN();
    x[5] = static_cast<T>(-1e5);
    x[99] = static_cast<T>(70000);
    for (const Feedback feedback : kFeedbacks) {
      const Coded<T> got = row.run(x, std::vector<T>(100), feedback);
      EXPECT_EQ(got.nonfinite, 2u) << row.describe(100, "");
      EXPECT_EQ(got.overflows, 2u) << row.describe(100, "");
    }
  });
}

TEST(Half, bf16_at_random_takes_a_neighbour_and_never_infinity) {
  for_each_isa("bf16", {{"round", 1}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    auto x = make_input<T>(Input::mixed_scales, 4000, seed());
    x[7] = static_cast<T>(0x1.fffffep127);
    x[8] = static_cast<T>(-0x1.ffp127);
    x[9] = T{0};
    const Coded<T> got = row.run(x, {}, Feedback::none);
    EXPECT_EQ(got.overflows, 0u);
    EXPECT_EQ(got.decoded[9], T{0});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x[i]));
      const auto low = static_cast<T>(std::bit_cast<float>(bits & 0xffff0000));
      const auto high = static_cast<T>(std::bit_cast<float>((bits & 0xffff0000) + 0x10000));
      ASSERT_TRUE(got.decoded[i] == low || (got.decoded[i] == high && x[i] != low))
          << row.describe(4000, "") << x[i] << " " << got.decoded[i];
    }
  });
}

template <class F>
void for_each_scaled(const F& property) {
  for_each_isa("f16", {{"scale", 1}}, property);
}

TEST(Half, f16_with_block_scales_is_exact_to_eleven_bits_whatever_the_range) {
  for_each_scaled([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (int power = -100; power <= 120; power += 20) {
      auto x = make_input<T>(Input::normal, 1000, seed());
      for (T& v : x) v = std::ldexp(v, power);
      const Coded<T> got = row.run(x, {}, Feedback::none);
      EXPECT_EQ(got.overflows, 0u);
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::abs(got.decoded[i] - x[i]),
                  std::abs(x[i]) * T{0x1.001p-11F} + std::ldexp(T{1}, power + 3 - 38))
            << row.describe(1000, "") << x[i];
    }
  });
}

TEST(Half, f16_with_block_scales_keeps_the_ends_of_the_range_finite) {
  for_each_scaled([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kMax = std::numeric_limits<T>::max(), kInf = std::numeric_limits<T>::infinity();
    constexpr T kLeast = std::numeric_limits<T>::min();
    for (const T most : {kMax, kLeast, std::numeric_limits<T>::denorm_min(), T{0}}) {
      std::vector<T> x(300, most);
      x[1] = -most;
      x[2] = kInf;
      x[3] = -kInf;
      x[4] = std::numeric_limits<T>::quiet_NaN();
      for (const Feedback feedback : kFeedbacks) {
        const Coded<T> got = row.run(x, std::vector<T>(300), feedback);
        EXPECT_EQ(got.nonfinite, 3u);
        EXPECT_EQ(got.overflows, 0u);
        EXPECT_EQ(got.decoded[2], kInf);
        EXPECT_EQ(got.decoded[3], -kInf);
        EXPECT_TRUE(std::isnan(got.decoded[4]));
        for (const std::size_t i : {0, 1, 299}) {
          ASSERT_TRUE(std::isfinite(got.decoded[i])) << row.describe(300, "") << most;
          ASSERT_LE(std::abs(got.decoded[i] - x[i]), std::max(most * T{0x1p-11F}, kLeast * T{0x1p-25F}))
              << row.describe(300, "") << most;
          if (feedback != Feedback::none) {
            ASSERT_EQ(got.residual[i], x[i] - got.decoded[i]) << row.describe(300, "") << most;
          }
        }
      }
    }
  });
}

TEST(Half, f16_refuses_scales_that_encode_cannot_write) {
  for_each_scaled([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 300;
    std::vector<T> x(n, T{1});
    const auto wire = row.run(x, {}, Feedback::none).wire;
    ASSERT_EQ(wire.size(), 2 * n + 2 * sizeof(T) / 4);
    const int top = 2 * std::numeric_limits<T>::max_exponent - 2 - 14;
    for (const int scale : {0, 1, top, top + 1, (1 << (sizeof(T) == 4 ? 8 : 16)) - 1}) {
      auto hostile = wire;
      std::memcpy(hostile.data(), &scale, sizeof(T) / 4);
      EXPECT_EQ(row.decode(hostile, n, nullptr, x.data()),
                scale >= 1 && scale <= top ? kernels::Decoded::ok : kernels::Decoded::malformed)
          << row.describe(n, "") << scale;
    }
  });
}

}  // namespace
}  // namespace mq::test
