// Natural compression: powers of two stay, all else goes to a neighbour, and the error is what the paper
// says.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

TEST(Natural, every_power_of_two_stays_and_the_rest_goes_to_a_neighbour) {
  for_each_row_of("natural", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    using Limits = std::numeric_limits<T>;
    std::vector<T> powers, between;
    for (int e = Limits::min_exponent - 1; e < Limits::max_exponent; ++e)
      for (const T sign : {T{1}, T{-1}}) {
        powers.push_back(std::ldexp(sign, e));
        between.push_back(std::ldexp(sign * static_cast<T>(1.3), e));
      }
    EXPECT_EQ(row.run(powers, {}, Feedback::none).decoded, powers) << row.describe(powers.size(), "");
    const auto got = row.run(between, {}, Feedback::none).decoded;
    const T most = std::ldexp(T{1}, Limits::max_exponent - 1);
    for (std::size_t i = 0; i < between.size(); ++i)
      ASSERT_TRUE(got[i] == powers[i] || (got[i] == 2 * powers[i] && std::abs(powers[i]) < most))
          << row.describe(between.size(), "") << between[i] << " " << got[i];
  });
}

TEST(Natural, of_zeros_subnormals_infinities_and_nan) {
  for_each_row_of("natural", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    using Limits = std::numeric_limits<T>;
    const std::vector<T> x{T{0},
                           -T{0},
                           Limits::denorm_min(),
                           -Limits::min() / 2,
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN(),
                           -Limits::quiet_NaN(),
                           Limits::max()};
    const Coded<T> got = row.run(x, std::vector<T>(x.size()), Feedback::carry);
    EXPECT_EQ(got.nonfinite, 4u);
    for (const std::size_t i : {0, 1}) EXPECT_EQ(got.decoded[i], T{0});
    for (const std::size_t i : {2, 3})
      EXPECT_TRUE(got.decoded[i] == T{0} || std::abs(got.decoded[i]) == Limits::min()) << got.decoded[i];
    for (const std::size_t i : {4, 5}) EXPECT_EQ(got.decoded[i], x[i]);
    for (const std::size_t i : {6, 7}) EXPECT_TRUE(std::isnan(got.decoded[i])) << got.decoded[i];
    EXPECT_EQ(got.decoded[8], std::ldexp(T{1}, Limits::max_exponent - 1));
  });
}

TEST(Natural, the_variance_is_at_most_an_eighth) {
  for_each_row_of("natural", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : {Input::normal, Input::laplace, Input::uniform, Input::mixed_scales}) {
      const auto x = make_input<T>(input, 100000, seed());
      EXPECT_LE(squared_error(x, row.run(x, {}, Feedback::none).decoded), squares(x) / 8)
          << row.describe(100000, name(input));
    }
    const std::vector<T> worst(100000, std::ldexp(T{1}, 7) * T{4} / T{3});  // v^2 / 8
    const double share = squared_error(worst, row.run(worst, {}, Feedback::none).decoded) / squares(worst);
    EXPECT_NEAR(share, 0.125, 0.002);
  });
}

TEST(Natural, takes_nine_bits_a_float_and_twelve_a_double) {
  for_each_row_of("natural", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    EXPECT_EQ(row.bound(32000), 32000 * (sizeof(T) == 4 ? 9 : 12) / 8);
  });
}

TEST(Natural, refuses_bits_of_elements_that_are_not_there) {
  for_each_row_of("natural", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 35;
    std::vector<T> out(n);
    const auto wire = row.run(std::vector<T>(n, T{1.5}), {}, Feedback::none).wire;
    const std::size_t group = wire.size() / 2;
    for (const std::size_t at : {group + 3, group + 31, wire.size() - 1}) {
      auto hostile = wire;
      hostile[at] |= std::byte{0x80};
      EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), kernels::Decoded::malformed)
          << row.describe(n, "") << at;
    }
  });
}

}  // namespace
}  // namespace mq::test
