// meProp: the lines with the greatest norms are sent whole and exact.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Decoded;
using kernels::Feedback;

template <class T>
double norm2(const std::vector<T>& x, std::size_t begin, std::size_t length) {
  double sum = 0;
  for (std::size_t i = begin; i < std::min(x.size(), begin + length); ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

struct Shape {
  double rows, ld, lines, k;
  std::size_t line() const { return static_cast<std::size_t>(std::max(rows, ld)); }
};
constexpr Shape kShapes[]{{7, 0, 64, 0.1}, {500, 0, 10, 0.3}, {33, 36, 100, 0.05}, {1, 0, 1000, 0.02}};

NamedValues values_of(const Shape& s) {
  return {{"rows", s.rows}, {"ld", s.ld}, {"lines", s.lines}, {"k", s.k}};
}

TEST(MeProp, sends_the_lines_of_the_greatest_norms_as_they_are) {
  for (const Shape& shape : kShapes)
    for_each_isa("meprop", values_of(shape), [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t line = shape.line(), n = 3 * row.block() + line / 2;
      ASSERT_EQ(row.block(), line * static_cast<std::size_t>(shape.lines));
      for (const Input input : {Input::normal, Input::laplace, Input::tiny, Input::huge}) {
        const auto x = make_input<T>(input, n, seed());
        const Coded<T> got = row.run(x, std::vector<T>(n), Feedback::carry);
        for (std::size_t begin = 0; begin < n; begin += row.block()) {
          const std::size_t end = std::min(n, begin + row.block());
          double least_sent = std::numeric_limits<double>::infinity(), most_kept = 0;
          std::size_t sent = 0, lines = 0;
          for (std::size_t at = begin; at < end; at += line, ++lines) {
            const bool is_sent = got.decoded[at] != 0;
            sent += is_sent;
            for (std::size_t i = at; i < std::min(end, at + line); ++i) {
              ASSERT_EQ(got.decoded[i], is_sent ? x[i] : T{0}) << row.describe(n, name(input)) << i;
              ASSERT_EQ(got.residual[i], is_sent ? T{0} : x[i]) << row.describe(n, name(input)) << i;
            }
            if (input == Input::huge) continue;  // squares of doubles overflow here, not in the codec
            (is_sent ? least_sent : most_kept) =
                is_sent ? std::min(least_sent, norm2(x, at, std::min(line, end - at)))
                        : std::max(most_kept, norm2(x, at, std::min(line, end - at)));
          }
          ASSERT_EQ(sent, static_cast<std::size_t>(std::ceil(shape.k * static_cast<double>(lines))))
              << row.describe(n, name(input));
          ASSERT_GE(least_sent, most_kept * (1 - 1e-5)) << row.describe(n, name(input));
        }
      }
    });
}

TEST(MeProp, with_all_lines_is_the_vector_itself) {
  for (Shape shape : kShapes) {
    shape.k = 1;
    for_each_isa("meprop", values_of(shape), [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      for (const Input input : kInputs) {
        const auto x = make_input<T>(input, row.block() + 5, seed());
        ASSERT_TRUE(same_bits(row.run(x, {}, Feedback::none).decoded, x))
            << row.describe(x.size(), name(input));
      }
    });
  }
}

// A bit for each line, and the elements of those that are sent.
TEST(MeProp, takes_the_bytes_of_its_format) {
  for (const Shape& shape : kShapes)
    for_each_isa("meprop", values_of(shape), [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t n = row.block(), lines = static_cast<std::size_t>(shape.lines);
      const auto sent = static_cast<std::size_t>(std::ceil(shape.k * shape.lines));
      EXPECT_EQ(row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none).wire.size(),
                4 + (lines + 7) / 8 + sent * shape.line() * sizeof(T))
          << row.describe(n, "");
      EXPECT_EQ(row.run(std::vector<T>(n), {}, Feedback::none).wire.size(), 4 + (lines + 7) / 8)
          << row.describe(n, "zeros");
    });
}

// Lines beside a NaN or Inf wait, or are lost loudly; those that are compared with others do not notice.
TEST(MeProp, of_lines_that_are_not_finite) {
  for_each_isa("meprop", {{"rows", 10}, {"lines", 20}, {"k", 0.1}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 400, block = 200;
    const T inf = std::numeric_limits<T>::infinity();
    auto x = make_input<T>(Input::normal, n, seed());
    const Coded<T> before = row.run(x, std::vector<T>(n), Feedback::carry);
    x[33] = x[3] = inf;
    const Coded<T> got = row.run(x, std::vector<T>(n), Feedback::carry);
    const auto alone = row.run(x, {}, Feedback::none).decoded;
    EXPECT_EQ(got.nonfinite, 2u);
    for (std::size_t i = 0; i < block; ++i) {
      const bool finite = std::isfinite(x[i]);
      EXPECT_EQ(got.decoded[i], finite ? T{0} : inf) << row.describe(n, "") << i;
      EXPECT_EQ(got.residual[i], finite ? x[i] : T{0}) << row.describe(n, "") << i;
      EXPECT_TRUE(finite ? std::isnan(alone[i]) : alone[i] == inf) << row.describe(n, "") << i;
    }
    for (std::size_t i = block; i < n; ++i)
      EXPECT_EQ(got.decoded[i], before.decoded[i]) << row.describe(n, "") << i;
  });
}

TEST(MeProp, refuses_what_encode_cannot_write) {
  for_each_isa("meprop", {{"rows", 10}, {"lines", 20}, {"k", 0.1}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 200;
    std::vector<T> out(n);
    const auto wire = row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none).wire;
    for (const std::size_t at : {0, 1, 3}) {
      auto hostile = wire;
      hostile[at] |= std::byte{0x70};
      EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), Decoded::malformed)
          << row.describe(n, "format") << at;
    }
    auto padded = wire;
    padded[6] |= std::byte{0x80};
    EXPECT_EQ(row.decode(padded, n, nullptr, out.data()), Decoded::malformed) << row.describe(n, "padding");
    auto many = wire;
    for (std::size_t i = 4; i < 6; ++i) many[i] = std::byte{0xff};
    many.resize(4 + 3 + 20 * 10 * sizeof(T));
    EXPECT_EQ(row.decode(many, n, nullptr, out.data()), Decoded::malformed)
        << row.describe(n, "too many lines");
  });
}

}  // namespace
}  // namespace mq::test
