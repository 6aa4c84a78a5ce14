// terngrad: its wire is as documented, its error is what the paper says, and a block with NaN or Inf loses
// nothing that a residual can keep.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/philox.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/packed.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;
using kernels::NoiseIndex;
namespace philox = kernels::philox;

constexpr int kBits[]{0, 2, 4, 5, 7, 8};  // of so many trits

// The trits of the n elements of a block whose trits begin at `at`, which moves behind them.
std::vector<int> trits_of(const std::byte*& at, std::size_t n) {
  std::vector<int> trits(n);
  for (std::size_t first = 0; first < n; first += 160) {
    const std::size_t groups = (std::min<std::size_t>(160, n - first) + 31) / 32;
    const int bits = kBits[groups];
    for (std::size_t lane = 0; lane < 32; ++lane) {
      int number = packed_code(at, bits, lane);
      for (std::size_t g = groups; g-- > 0; number /= 3)
        if (first + 32 * g + lane < n) trits[first + 32 * g + lane] = number % 3;
      EXPECT_EQ(number, 0) << "no digit is left";
    }
    at += 4 * bits;
  }
  return trits;
}

// Each element is sent as the definition asks, with the bits of noise that philox.hpp gives it.
TEST(TernGrad, trits_are_those_of_the_definition) {
  for_each_row_of("terngrad", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
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
        T s;
        std::memcpy(&s, at, sizeof s);
        at += sizeof s;
        ASSERT_GT(s, 0) << row.describe(n, name(input));
        const std::size_t end = std::min(n, begin + row.block());
        const std::vector<int> trits = trits_of(at, end - begin);
        for (std::size_t i = begin; i < end; ++i) {
          const auto bits = static_cast<T>(philox::bits_of(noise.call, noise.sum, noise.index + i));
          const T scaled = x[i] * (T{1} / s) + (bits * T{0x1p-16} + (T{0x1p-17} - T{0.5}));
          ASSERT_EQ(trits[i - begin] - 1, std::nearbyint(std::clamp(scaled, T{-1}, T{1})))
              << row.describe(n, name(input)) << i;
        }
      }
      ASSERT_EQ(at, wire.data() + wire.size()) << row.describe(n, name(input));
    }
  });
}

TEST(TernGrad, takes_the_bytes_that_the_table_says) {
  const std::size_t n = 1 << 16;
  const auto bytes = [&](double block) {
    return static_cast<double>(fastest("terngrad", {{"block", block}}).bound(n)) / static_cast<double>(n);
  };
  EXPECT_EQ(bytes(32), (8 + 4) / 32.0);
  EXPECT_EQ(bytes(128), (28 + 4) / 128.0);
  EXPECT_EQ(bytes(512), (3 * 32 + 8 + 4) / 512.0);
  EXPECT_EQ(bytes(2048), (12 * 32 + 28 + 4) / 2048.0);
  EXPECT_NEAR(bytes(2048), 0.2 + 4 / 2048.0, 0.01 * bytes(2048)) << "the paper's five trits a byte";
}

// The mean squared error that an independent simulation found, blocks of 512 (Gauss and Laplace, unit
// variance).
TEST(TernGrad, error_is_that_of_an_independent_simulation) {
  for (const auto& [input, expected] : {std::pair{Input::normal, 1.56}, std::pair{Input::laplace, 2.45}}) {
    const auto x = make_input<float>(input, 512 * 400, seed());
    const auto decoded = fastest("terngrad", {}).run(x, {}, Feedback::none).decoded;
    EXPECT_NEAR(squared_error(x, decoded) / squares(x), expected, 0.08 * expected) << name(input);
  }
}

// Section 3: each element is 0 or its sign times s, s with the probability |v| / s. So the variance of a
// block is s sum |v| - sum v^2.
TEST(TernGrad, variance_is_that_of_the_paper) {
  const std::size_t block = 4096, n = 40 * block;
  const Row<double> row{kernels::find_codec("terngrad"),
                        with_values(*kernels::find_codec("terngrad"), {{"block", block}}),
                        kernels::best_isa()};
  for (const Input input : {Input::normal, Input::laplace, Input::one_sided, Input::uniform}) {
    const auto x = make_input<double>(input, n, seed());
    double expected = 0;
    for (std::size_t begin = 0; begin < n; begin += block) {
      double most = 0, sum = 0;
      for (std::size_t i = begin; i < begin + block; ++i) {
        most = std::max(most, std::abs(x[i]));
        sum += std::abs(x[i]);
        expected -= x[i] * x[i];
      }
      expected += most * sum;
    }
    EXPECT_NEAR(squared_error(x, row.run(x, {}, Feedback::none).decoded) / expected, 1, 0.02) << name(input);
  }
}

// Section 3.3: what is beyond clip root mean squares is sent as that many, always; the rest is right on
// average.
TEST(TernGrad, clips_at_root_mean_squares_and_keeps_what_it_clips) {
  for (const double clip : {0.5, 1.0, 2.5})
    for_each_isa("terngrad", {{"clip", clip}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t n = row.block();
      const auto x = make_input<T>(Input::normal, n, seed());
      const double limit = clip * std::sqrt(squares(x) / static_cast<double>(n));
      const Coded<T> got = row.run(x, std::vector<T>(n), Feedback::carry);
      std::size_t clipped = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double v = static_cast<double>(x[i]), decoded = static_cast<double>(got.decoded[i]);
        ASSERT_TRUE(decoded == 0 || std::abs(std::abs(decoded) / limit - 1) < 1e-5)
            << row.describe(n, "") << decoded << " of " << limit;
        if (std::abs(v) < limit * 1.00001) continue;
        ++clipped;
        ASSERT_NE(decoded, 0) << row.describe(n, "") << i;
        ASSERT_EQ(got.residual[i], x[i] - got.decoded[i]);
      }
      ASSERT_GT(clipped, 0u) << "the test needs elements beyond the clip";
    });
}

TEST(TernGrad, of_its_three_values_is_exact) {
  for_each_isa("terngrad", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    std::vector<T> x;
    for (int i = 0; i < 4096 + 40; ++i) x.push_back(static_cast<T>(i % 7 % 3 - 1) * T{0.25});
    EXPECT_EQ(row.run(x, {}, Feedback::none).decoded, x) << row.describe(x.size(), "");
  });
}

// With a residual, the finite elements of a block with NaN or Inf stay in it; without, they are lost and say
// so.
TEST(TernGrad, a_block_with_nonfinite_elements_keeps_the_others_or_says_that_they_are_lost) {
  for_each_row_of("terngrad", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kInf = std::numeric_limits<T>::infinity(), kNan = std::numeric_limits<T>::quiet_NaN();
    struct Case {
      T planted[2], decoded;
    };
    for (const Case& c : {Case{{kInf, kInf}, kInf}, Case{{-kInf, -kInf}, -kInf}, Case{{kInf, -kInf}, kNan},
                          Case{{kNan, kNan}, kNan}, Case{{kNan, kInf}, kNan}}) {
      const std::size_t n = row.block() + 5, at[2]{1, row.block() - 1};
      auto x = make_input<T>(Input::normal, n, seed());
      for (int i = 0; i < 2; ++i) x[at[i]] = c.planted[i];
      const Coded<T> kept = row.run(x, std::vector<T>(n), Feedback::carry),
                     lost = row.run(x, {}, Feedback::none);
      for (std::size_t i = 0; i < row.block(); ++i) {
        const bool planted = i == at[0] || i == at[1];
        const T expected = planted ? c.decoded : T{0};
        ASSERT_TRUE(kept.decoded[i] == expected || (std::isnan(expected) && std::isnan(kept.decoded[i])));
        ASSERT_EQ(kept.residual[i], planted ? T{0} : x[i]) << row.describe(n, "") << i;
        ASSERT_TRUE(planted ? !std::isfinite(lost.decoded[i]) : std::isnan(lost.decoded[i]));
      }
      for (std::size_t i = row.block(); i < n; ++i) ASSERT_TRUE(std::isfinite(lost.decoded[i]));
    }
  });
}

// A wire that no encode writes is refused, at each place where it is wrong.
TEST(TernGrad, refuses_heads_and_trits_that_encode_cannot_write) {
  for_each_row_of("terngrad", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = row.block() + 3;
    auto x = make_input<T>(Input::normal, n, seed());
    std::vector<T> out(n);
    const auto refused = [&](const auto& wire, std::size_t at, const auto& value, const char* what) {
      auto hostile = wire;
      std::memcpy(hostile.data() + at, &value, sizeof value);
      EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), kernels::Decoded::malformed)
          << row.describe(n, what);
    };
    const auto finite = row.run(x, {}, Feedback::none).wire;
    constexpr T kInf = std::numeric_limits<T>::infinity();
    for (const T s : {kInf, -kInf, std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::denorm_min(),
                      T{-1}, -T{0}})
      refused(finite, 0, s, "s");
    const std::size_t last = finite.size() - 8;  // three elements in 2 bits each
    refused(finite, last, std::uint8_t{0x03}, "a number that is no trit");
    refused(finite, finite.size() - 1, std::uint8_t{0x40}, "a trit behind the last element");
    if (row.block() >= 160) refused(finite, sizeof(T), std::uint8_t{243}, "a number that is no five trits");
    x[0] = kInf;
    const auto marked = row.run(x, {}, Feedback::none).wire;
    const std::uint8_t all_zero[8]{};
    refused(marked, sizeof(T), all_zero, "a trit 0 in a block with marks");
    x[0] = 1;
    auto unmarked = row.run(x, {}, Feedback::none).wire;
    refused(unmarked, 0, -std::numeric_limits<T>::quiet_NaN(), "marks that are none");
  });
}

}  // namespace
}  // namespace mq::test
