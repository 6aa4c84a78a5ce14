// Blockwise integers (int8, int4, qsgd) and their random numbers: the wire is as documented, and the error is
// what theory and an independent simulation say.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/integers/integers.hpp"
#include "kernels/philox.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/packed.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;
using kernels::NoiseIndex;
namespace philox = kernels::philox;

// The vectors that the authors publish with Random123 (kat_vectors).
TEST(Philox, draws_the_published_numbers) {
  struct Case {
    philox::Block counter;
    std::uint32_t key0, key1;
    philox::Block expected;
  };
  for (const Case& c :
       {Case{{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        Case{{{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        Case{{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
             0xa4093822,
             0x299f31d0,
             {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}}) {
    const philox::Block got = philox::draw(c.counter, c.key0, c.key1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], c.expected.word[i]) << i;
  }
}

// What the documentation of the format says of one row, in scalar code of the test's own.
struct Format {
  int bits = 0;
  bool stochastic = false, minmax = false;
  int limit() const { return (1 << (bits - 1)) - 1; }
};
template <class Row>
Format format_of(const Row& row) {
  const auto value = [&](std::string_view name) {
    const std::size_t at = position(*row.codec, name);
    return at < row.codec->specs.size() ? row.params.value[at] : 0;
  };
  if (row.codec->name == "qsgd") return {static_cast<int>(value("bits")), true, false};
  return {row.codec->name == "int8" ? 8 : 4, value("round") == 1, value("scale") == 1};
}

// With codes of fixed length: entropy_test compares code=entropy with these.
template <class F>
void for_each_integer_row(const F& property) {
  for (const std::string_view codec : {"int8", "int4", "qsgd"})
    for_each_row_of(codec, [&](const auto& row) {
      if (row.params.value[position(*row.codec, "code")] == 0) property(row);
    });
  for (const double bits : {3, 5, 6, 7}) for_each_isa("qsgd", {{"bits", bits}}, property);
}

// Each element is sent as the integer that the definition asks for, with the bits of noise that philox.hpp
// gives it.
TEST(Integers, codes_are_those_of_the_definition) {
  for_each_integer_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const Format format = format_of(row);
    for (const Input input : {Input::normal, Input::one_sided, Input::mixed_scales}) {
      // The second is where the numbers of the draws pass 2^32.
      const std::uint64_t first = input == Input::normal ? 3 : (std::uint64_t{1} << 35) / row.block() - 1;
      const NoiseIndex noise{
          .call = 0x123456789abcdefu, .sum = 0xfedcba987654321u, .index = first * row.block()};
      const std::size_t n = row.block() + 77;
      const auto x = make_input<T>(input, n, seed());
      const auto wire = row.run(x, {}, Feedback::none, 0, noise).wire;
      const std::byte* at = wire.data();
      for (std::size_t begin = 0; begin < n; begin += row.block()) {
        T head[2]{};
        std::memcpy(head, at, sizeof(T) * (format.minmax ? 2 : 1));
        at += sizeof(T) * (format.minmax ? 2 : 1);
        ASSERT_GT(head[0], 0) << row.describe(n, name(input));
        const std::size_t end = std::min(n, begin + row.block());
        for (std::size_t i = begin; i < end; ++i) {
          const std::byte* group = at + (i - begin) / 32 * 4 * static_cast<std::size_t>(format.bits);
          const int code = packed_code(group, format.bits, (i - begin) % 32) - format.limit() - 1;
          T scaled = (x[i] - head[1]) * (T{1} / head[0]);
          if (format.stochastic) {
            const auto bits = static_cast<T>(philox::bits_of(noise.call, noise.sum, noise.index + i));
            scaled += bits * T{0x1p-16} + T{0x1p-17} - T{0.5};
          }
          const T limit = static_cast<T>(format.limit());
          ASSERT_EQ(code, std::nearbyint(std::clamp(scaled, -limit, limit)))
              << row.describe(n, name(input)) << i;
        }
        at += (end - begin + 31) / 32 * 4 * static_cast<std::size_t>(format.bits);
      }
      ASSERT_EQ(at, wire.data() + wire.size()) << row.describe(n, name(input));
    }
  });
}

TEST(Integers, take_the_bytes_that_the_table_says) {
  const std::size_t n = 1 << 16;
  const auto bytes = [&](std::string_view codec, NamedValues values) {
    return static_cast<double>(fastest(codec, values).bound(n)) / static_cast<double>(n);
  };
  EXPECT_EQ(bytes("int8", {}), 1 + 4 / 256.0);
  EXPECT_EQ(bytes("int4", {}), 0.5 + 4 / 256.0);
  EXPECT_EQ(bytes("int8", {{"scale", 1}}), 1 + 8 / 256.0);
  for (const double bits : {2, 3, 4, 5, 6, 7, 8})
    EXPECT_EQ(bytes("qsgd", {{"bits", bits}}), bits / 8 + 4 / 512.0) << bits;
}

// The mean squared error that an independent simulation found, blocks of 512 (Gauss and Laplace, unit
// variance).
TEST(Integers, error_is_that_of_an_independent_simulation) {
  struct Case {
    std::string_view codec;
    NamedValues values;
    double normal, laplace;
  };
  const std::vector<Case> cases{
      {"int8", {}, 5.3e-5, 1.3e-4},
      {"int8", {{"round", 1}}, 1.07e-4, 2.5e-4},
      {"int8", {{"scale", 1}}, 4.7e-5, 9.9e-5},
      {"int4", {}, 0.0177, 0.040},
      {"int4", {{"round", 1}}, 0.0352, 0.081},
      {"qsgd", {{"bits", 8}}, 1.07e-4, 2.5e-4},
      {"qsgd", {{"bits", 4}}, 0.0352, 0.081},
      {"qsgd", {{"bits", 2}}, 1.56, 2.45},
      {"qsgd", {{"bits", 8}, {"norm", 1}}, 0.0053, 0.0053},
      {"qsgd", {{"bits", 4}, {"norm", 1}}, 1.6, 1.33},
      {"qsgd", {{"bits", 2}, {"norm", 1}}, 16.8, 14.6},
  };
  for (const Case& c : cases) {
    const kernels::Codec& codec = *kernels::find_codec(c.codec);
    NamedValues values = c.values;
    values.push_back({"block", 512});
    const Row<float> row{&codec, with_values(codec, values), kernels::best_isa()};
    for (const auto& [input, expected] :
         {std::pair{Input::normal, c.normal}, std::pair{Input::laplace, c.laplace}}) {
      const auto x = make_input<float>(input, 512 * 400, seed());
      const auto decoded = row.run(x, {}, Feedback::none).decoded;
      EXPECT_NEAR(squared_error(x, decoded) / squares(x), expected, 0.08 * expected)
          << row.describe(x.size(), name(input));
    }
  }
}

// QSGD, lemma 3.1: the expected squared error is at most min(d / s^2, sqrt(d) / s) |v|^2.
TEST(Integers, variance_of_qsgd_is_within_the_papers_bound) {
  for (const double bits : {2, 3, 4, 5, 6, 7, 8})
    for (const double block : {32, 512, 4096}) {
      const Row<float> row = fastest("qsgd", {{"bits", bits}, {"block", block}, {"norm", 1}});
      const double s = std::pow(2, bits - 1) - 1, bound = std::min(block / (s * s), std::sqrt(block) / s);
      for (const Input input : {Input::normal, Input::uniform, Input::constant, Input::spikes}) {
        const auto x = make_input<float>(input, 4096 * 16, seed());
        EXPECT_LE(squared_error(x, row.run(x, {}, Feedback::none).decoded), 1.1 * bound * squares(x))
            << row.describe(x.size(), name(input));
      }
    }
}

TEST(Integers, whole_steps_are_exact) {
  for_each_integer_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const Format format = format_of(row);
    if (row.codec->name == "qsgd" && row.params.value[position(*row.codec, "norm")] == 1) return;
    const int limit = format.limit();
    std::vector<T> x;
    for (int i = 0; i < 4096 + 40; ++i) {  // both ends are in every block
      const int q = i % 32 == 0 ? limit : i % 32 == 1 ? -limit : i % (2 * limit + 1) - limit;
      x.push_back(static_cast<T>(q) * T{0.25});
    }
    EXPECT_EQ(row.run(x, {}, Feedback::none).decoded, x) << row.describe(x.size(), "");
  });
}

// A NaN costs the other elements of its block nothing: they are sent as they were.
TEST(Integers, nonfinite_elements_do_not_touch_the_others) {
  for_each_integer_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    auto x = make_input<T>(Input::normal, 2 * row.block() + 5, seed());
    plant_nonfinite(x, seed());
    const Coded<T> got = row.run(x, std::vector<T>(x.size()), Feedback::carry);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::isfinite(x[i]), std::isfinite(got.decoded[i])) << row.describe(x.size(), "") << i;
      if (!std::isfinite(x[i])) continue;
      ASSERT_NEAR(got.decoded[i] + got.residual[i], x[i], 1e-5) << row.describe(x.size(), "") << i;
      ASSERT_LE(std::abs(got.residual[i]), 6 * row.codec->error_bound(row.params)) << i;
    }
  });
}

// A wire that no encode writes is refused, at each place where it is wrong.
TEST(Integers, refuse_steps_middles_and_codes_that_encode_cannot_write) {
  for_each_integer_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const Format format = format_of(row);
    const std::size_t n = row.block() + 3;
    const auto wire = row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none).wire;
    std::vector<T> out(n);
    const auto refused = [&](std::size_t at, const auto& value, const char* what) {
      auto hostile = wire;
      std::memcpy(hostile.data() + at, &value, sizeof value);
      EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), kernels::Decoded::malformed)
          << row.describe(n, what);
    };
    constexpr T kMax = std::numeric_limits<T>::max(), kInf = std::numeric_limits<T>::infinity();
    for (const T step :
         {kInf, -kInf, std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::denorm_min(), T{-1}})
      refused(0, step, "step");
    if (format.limit() > 1) refused(0, kMax, "a step that overflows");
    if (format.minmax)
      for (const T middle : {kInf, -kInf, std::numeric_limits<T>::quiet_NaN()})
        refused(sizeof(T), middle, "middle");
    const std::size_t head = sizeof(T) * (format.minmax ? 2 : 1),
                      group = static_cast<std::size_t>(4 * format.bits);
    auto hostile = wire;
    std::fill_n(hostile.begin() + static_cast<std::ptrdiff_t>(head), group, std::byte{0});
    EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), kernels::Decoded::malformed)
        << row.describe(n, "codes 0");
    hostile = wire;
    hostile.back() |= std::byte{0x80};  // the last code of the last group, of which three are in use
    EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), kernels::Decoded::malformed)
        << row.describe(n, "padding");
  });
}

}  // namespace
}  // namespace mq::test
