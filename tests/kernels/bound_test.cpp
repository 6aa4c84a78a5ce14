// The wire of bound: what was rounded once is sent without loss, the least width is used, and nothing else is
// accepted.

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Decoded;
using kernels::Feedback;

template <class F>
void for_each_bound(const F& property) {
  for (const double abs : {1e-18, 1e-6, 1e-3, 7.0, 1e18}) for_each_isa("bound", {{"abs", abs}}, property);
}

TEST(Bound, what_was_rounded_once_is_not_rounded_again) {
  for_each_bound([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : kInputs) {
      const auto once = row.run(make_input<T>(input, 9000, seed()), {}, Feedback::none);
      const auto twice = row.run(once.decoded, {}, Feedback::none);
      ASSERT_TRUE(once.decoded == twice.decoded) << row.describe(9000, name(input));
    }
  });
}

TEST(Bound, residuals_are_what_is_lost_exactly) {
  for_each_bound([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const auto x = make_input<T>(Input::normal, 5000, seed());
    const Coded<T> got = row.run(x, std::vector<T>(5000), Feedback::carry);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(got.decoded[i] + got.residual[i], x[i]) << row.describe(5000, "");
  });
}

// Bytes of a block of 256 floats whose numbers k are these, with its byte of mode and width.
std::size_t bytes_of(const std::vector<float>& k) {
  const Row<float> row = fastest("bound", {{"abs", 0.5}});  // step 1
  return row.run(k, {}, Feedback::none).wire.size();
}

TEST(Bound, blocks_take_the_least_width) {
  std::vector<float> k(256, 0.0F);
  EXPECT_EQ(bytes_of(k), 1u);
  k[77] = -1;
  EXPECT_EQ(bytes_of(k), 1u + 32);
  k[78] = 1;
  EXPECT_EQ(bytes_of(k), 1u + 2 * 32);
  k[79] = 1 << 20;
  k[80] = -(1 << 20);
  EXPECT_EQ(bytes_of(k), 1u + 22 * 32);
  k[79] = (1 << 22) - 1;
  k[80] = -(1 << 22);
  EXPECT_EQ(bytes_of(k), 1u + 23 * 32);
  for (const float beyond : {4194303.5F, -4194304.5F, 0x1p22F, 0x1p23F, -0x1p23F, 0x1p30F}) {
    k[80] = beyond;  // it is sent as it is, and so are all
    EXPECT_EQ(bytes_of(k), 1u + 1024) << beyond;
  }
  for (std::size_t i = 0; i < 256; ++i)
    k[i] = static_cast<float>(1000000 + i % 2);  // differences of 1 and -1
  EXPECT_EQ(bytes_of(k), 1u + 4 + 2 * 32);
}

TEST(Bound, never_sends_more_than_the_vector_and_a_byte_a_block) {
  for_each_bound([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : kInputs)
      for (const std::size_t n : {1, 255, 257, 1024, 4096, 10000})
        ASSERT_LE(row.run(make_input<T>(input, n, seed()), {}, Feedback::none).wire.size(),
                  n * sizeof(T) + (n + 255) / 256);
  });
}

TEST(Bound, a_share_is_one_of_the_greatest_finite_magnitude) {
  const kernels::Codec& codec = *kernels::find_codec("bound");
  const kernels::Params given = with_values(codec, {{"rel", 0.5}, {"growth", 1}});
  ASSERT_EQ(codec.measures(given), kernels::Measures::each_call);
  EXPECT_EQ(codec.measures(kernels::preset_params(codec)), kernels::Measures::nothing);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::size_t n : {0, 1, 31, 32, 100}) {
    std::vector<float> x(n, -1.0F);
    if (n > 30) x[5] = kInf, x[6] = std::nanf(""), x[n - 1] = -3;
    const kernels::Measured measured = codec.measure(x.data(), n, kernels::Element::f32, given);
    EXPECT_EQ(measured, (kernels::Measured{n == 0 ? 0.0 : n == 1 ? 1.0 : 3.0}));
    const kernels::Params settled = codec.settle(given, measured);
    EXPECT_EQ(settled, with_values(codec, {{"abs", n == 0 ? 1e-3 : n == 1 ? 0.5 : 1.5}, {"growth", 1}}));
  }
}

TEST(Bound, what_has_no_step_is_sent_as_it_is) {
  const auto expect_exact = [](auto row, double abs) {
    row.params.value[0] = abs;  // as settled from a vector of small numbers
    using T = typename decltype(row)::Type;
    for (const std::size_t n : {1, 300, 5000}) {
      std::vector<T> x(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(i) * static_cast<T>(abs);
      const Coded<T> got = row.run(x, {}, Feedback::none);
      ASSERT_TRUE(same_bits(got.decoded, x));
      auto hostile = got.wire;
      hostile[0] = std::byte{1};
      ASSERT_EQ(row.decode(hostile, n, nullptr, x.data()), Decoded::malformed);
    }
  };
  for_each_isa("bound", {}, [&](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const double small : {4e-45, 3e-39}) expect_exact(row, sizeof(T) == 4 ? small : small * 1e-270);
  });
}

// 2 abs is then an infinity. Numbers within the range of the greatest step, 2^100, are rounded to it.
TEST(Bound, the_greatest_bounds_have_a_step_too) {
  for_each_isa("bound", {}, [](auto row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const double abs : {1e308, std::numeric_limits<double>::max()}) {
      row.params.value[0] = abs;
      const std::vector<T> x{0, 1, -1, static_cast<T>(0x1.4p100), static_cast<T>(-0x1.cp101)};
      const Coded<T> got = row.run(x, {}, Feedback::none);
      ASSERT_EQ(got.decoded, (std::vector<T>{0, 0, 0, static_cast<T>(0x1p100), static_cast<T>(-0x1p102)}));
    }
  });
}

TEST(Bound, settles_the_same_step_whatever_rounding_the_program_has_set) {
  const kernels::Codec& codec = *kernels::find_codec("bound");
  const kernels::Params params = with_values(codec, {{"rel", 0.3333333333333333}});
  const kernels::Params nearest = codec.settle(params, {3});
  for (const int rounding : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    const kernels::Params settled = codec.settle(params, {3});
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(settled, nearest);
  }
}

TEST(Bound, refuses_what_encode_cannot_write) {
  const Row<float> row = fastest("bound", {{"abs", 0.5}});
  const std::size_t n = 300;
  std::vector<float> x(n), out(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = i % 2 == 0 ? 17.0F : -5.0F;
  const auto wire = row.run(x, {}, Feedback::none).wire;
  const auto expect_refused = [&](const auto& change, const char* what) {
    auto hostile = wire;
    change(hostile);
    EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), Decoded::malformed) << what;
  };
  ASSERT_EQ(row.decode(wire, n, nullptr, out.data()), Decoded::ok);
  ASSERT_EQ(std::to_integer<int>(wire[0]), 6) << "width";
  for (const int byte : {0, 5, 7, 24, 63, 64 | 6, 128 | 1, 192, 255})
    expect_refused([&](auto& w) { w[0] = static_cast<std::byte>(byte); }, "mode and width");
  expect_refused([](auto& w) { w.pop_back(); }, "cut");
  expect_refused([](auto& w) { w.push_back(std::byte{0}); }, "too long");
  expect_refused([](auto& w) { w.clear(); }, "empty");
  const auto fill_first_block = [](auto& w, std::uint32_t code) {
    for (std::size_t bit = 0; bit < 6 * 32; ++bit)
      for (std::size_t column = 0; column < 8; ++column) {
        std::byte& at = w[1 + bit / 32 * 32 + column * 4 + bit % 32 / 8];
        const auto mask = static_cast<std::byte>(1u << bit % 8);
        at = (code >> bit % 6 & 1) != 0 ? at | mask : at & ~mask;
      }
  };
  for (const std::uint32_t code : {16, 31, 32, 47})
    expect_refused([&](auto& w) { fill_first_block(w, code); }, "a width that is not the least");
  for (const std::uint32_t code : {0, 15, 48, 63}) {
    auto least = wire;
    fill_first_block(least, code);
    EXPECT_EQ(row.decode(least, n, nullptr, out.data()), Decoded::ok);
    EXPECT_EQ(out[77], static_cast<float>(code) - 32);
  }
  expect_refused([](auto& w) { w[1 + 192 + 1 + 7 * 4 + 3] ^= std::byte{0x40}; },
                 "a column without an element");
  expect_refused([](auto& w) { w.back() |= std::byte{0x80}; }, "bits behind the last number");
}

TEST(Bound, refuses_differences_that_encode_cannot_write) {
  const Row<float> row = fastest("bound", {{"abs", 0.5}});
  const std::size_t n = 256;
  std::vector<float> x(n), out(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(4194302 + i % 2);
  const auto wire = row.run(x, {}, Feedback::none).wire;
  ASSERT_EQ(std::to_integer<int>(wire[0]), 64 | 2) << "differences of 2 bits";
  const auto decoded = [&](std::size_t at, int change) {
    auto hostile = wire;
    hostile[at] = static_cast<std::byte>(std::to_integer<int>(hostile[at]) + change);
    return row.decode(hostile, n, nullptr, out.data());
  };
  EXPECT_EQ(decoded(1, -1), Decoded::ok) << "another first number";
  EXPECT_EQ(decoded(1, 1), Decoded::malformed) << "a number beyond the range";
  EXPECT_EQ(decoded(4, 0x80), Decoded::malformed) << "a first number beyond the range";
  EXPECT_EQ(decoded(5, 1), Decoded::malformed) << "a first difference that is not 0";
}

}  // namespace
}  // namespace mq::test
