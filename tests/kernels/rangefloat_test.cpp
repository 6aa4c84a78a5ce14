// rangefloat: codes are consecutive bit patterns: every one of them comes back, they are in the order of the
// magnitudes, and numbers go to the nearer code.

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

using kernels::Decoded;
using kernels::Feedback;

struct Format {
  int bits, mantissa;
  int codes() const { return (1 << (bits - 1)) - 2; }
  NamedValues with(std::string_view name, double value) const {
    return {{"bits", bits}, {"man", mantissa}, {name, value}};
  }
};

template <class F>
void for_each_format(const F& property) {
  for (int bits = 4; bits <= 8; ++bits)
    for (int mantissa = 1; mantissa <= 5; ++mantissa) property(Format{bits, mantissa});
}

// The number of code 1 to codes(), if the least is `eps`, which has no more bits than the mantissa.
template <class T>
T number(const Format& format, double eps, int code) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const int drop = std::numeric_limits<T>::digits - 1 - format.mantissa;
  return std::bit_cast<T>(std::bit_cast<Word>(static_cast<T>(eps)) + (static_cast<Word>(code - 1) << drop));
}

template <class T>
std::vector<T> all_numbers(const Format& format, double eps) {
  std::vector<T> x;
  for (int code = format.codes(); code >= 1; --code) x.push_back(-number<T>(format, eps, code));
  x.push_back(T{0});
  for (int code = 1; code <= format.codes(); ++code) x.push_back(number<T>(format, eps, code));
  return x;
}

TEST(RangeFloat, every_code_comes_back_and_codes_are_in_the_order_of_the_numbers) {
  for_each_format([](const Format& format) {
    for (const double eps : {0x1p-10, 1.5, 0x1p60}) {
      for_each_isa("rangefloat", format.with("eps", eps), [&](const auto& row) {
        using T = typename std::decay_t<decltype(row)>::Type;
        const auto x = all_numbers<T>(format, eps);
        for (std::size_t i = 1; i < x.size(); ++i) ASSERT_LT(x[i - 1], x[i]);
        const Coded<T> got = row.run(x, {}, Feedback::none);
        ASSERT_TRUE(same_bits(got.decoded, x)) << row.describe(x.size(), "");
        // the greatest number is what the range is
        const Row<T> by_range{
            row.codec, with_values(*row.codec, format.with("range", static_cast<double>(x.back()))), row.isa};
        ASSERT_EQ(by_range.run(x, {}, Feedback::none).wire, got.wire) << row.describe(x.size(), "range");
      });
      for_each_isa("rangefloat", format.with("range", 0), [&](const auto& row) {
        using T = typename std::decay_t<decltype(row)>::Type;
        const auto x = all_numbers<T>(format, eps);  // one block
        ASSERT_TRUE(same_bits(row.run(x, {}, Feedback::none).decoded, x)) << row.describe(x.size(), "block");
      });
    }
  });
}

TEST(RangeFloat, numbers_between_two_codes_go_to_the_nearer_and_those_outside_to_the_ends) {
  for_each_format([](const Format& format) {
    for_each_isa("rangefloat", format.with("eps", 0.25), [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const auto numbers = all_numbers<T>(format, 0.25);
      const T most = numbers.back();
      std::vector<T> x, expected;
      const auto add = [&](T v, T code) {
        for (const T sign : {T{1}, T{-1}}) {
          x.push_back(sign * v);
          expected.push_back(code == T{0} ? T{0} : sign * code);
        }
      };
      for (std::size_t i = numbers.size() / 2; i + 1 < numbers.size(); ++i) {
        const T tie = (numbers[i] + numbers[i + 1]) / 2;
        add(tie, numbers[i + 1]);
        add(std::nextafter(tie, T{0}), numbers[i]);
        add(std::nextafter(tie, most), numbers[i + 1]);
      }
      add(std::nextafter(most, 2 * most), most);
      add(std::numeric_limits<T>::max(), most);
      add(std::numeric_limits<T>::denorm_min(), T{0});
      ASSERT_TRUE(same_bits(row.run(x, {}, Feedback::none).decoded, expected)) << row.describe(x.size(), "");
    });
  });
}

TEST(RangeFloat, a_block_has_the_range_of_its_greatest_element_at_both_ends_of_the_type) {
  for_each_format([](const Format& format) {
    for_each_isa("rangefloat", format.with("range", 0), [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const double bound = row.codec->error_bound(row.params);
      for (const T most : {std::numeric_limits<T>::max(), T{1}, std::numeric_limits<T>::min() * 1024}) {
        auto x = make_input<T>(Input::uniform, 600, seed());
        for (T& v : x) v *= most / 2;
        x[5] = -most;
        const auto y = row.run(x, {}, Feedback::none).decoded;
        for (std::size_t i = 0; i < 256; ++i) {
          ASSERT_TRUE(std::isfinite(y[i]));
          ASSERT_LE(std::abs(y[i] / 2 - x[i] / 2), static_cast<T>(bound) * (most / 2))
              << row.describe(600, "") << x[i];
        }
      }
    });
  });
}

TEST(RangeFloat, what_is_not_finite_stays_so_and_touches_no_other) {
  for_each_isa("rangefloat", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const auto clean = make_input<T>(Input::normal, 300, seed());
    auto x = clean;
    x[3] = std::numeric_limits<T>::infinity();
    x[4] = -x[3];
    x[290] = -std::numeric_limits<T>::quiet_NaN();
    const Coded<T> got = row.run(x, std::vector<T>(300), Feedback::carry);
    EXPECT_EQ(got.nonfinite, 3u);
    auto without = clean;
    without[3] = without[4] = without[290] = T{0};
    auto expected = row.run(without, {}, Feedback::none).decoded;
    EXPECT_EQ(got.decoded[3], x[3]);
    EXPECT_EQ(got.decoded[4], x[4]);
    EXPECT_TRUE(std::isnan(got.decoded[290])) << row.describe(300, "");
    EXPECT_EQ(got.residual[3], T{0});
    auto decoded = got.decoded;
    decoded[3] = decoded[4] = decoded[290] = T{0};
    EXPECT_TRUE(same_bits(decoded, expected)) << row.describe(300, "");
  });
}

TEST(RangeFloat, refuses_ranges_and_padding_that_encode_cannot_write) {
  for_each_isa("rangefloat", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const std::size_t n = 35;
    std::vector<T> out(n);
    const auto wire = row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none).wire;
    const auto decode_with = [&](Word top) {
      auto hostile = wire;
      std::memcpy(hostile.data(), &top, sizeof top);
      return row.decode(hostile, n, nullptr, out.data());
    };
    const int drop = std::numeric_limits<T>::digits - 1 - 3;
    const Word last = std::bit_cast<Word>(std::numeric_limits<T>::max()) >> drop;
    for (const Word top : {Word{126}, last}) EXPECT_EQ(decode_with(top), Decoded::ok) << row.describe(n, "");
    for (const Word top : {Word{0}, Word{125}, last + 1, ~Word{0}})
      EXPECT_EQ(decode_with(top), Decoded::malformed) << row.describe(n, "") << top;
    auto hostile = wire;
    hostile.back() = std::byte{1};
    EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), Decoded::malformed) << row.describe(n, "padding");
  });
}

}  // namespace
}  // namespace mq::test
