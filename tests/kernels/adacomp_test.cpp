// AdaComp: what is sent is what the definition asks for, in the bytes of the paper's rates.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"
#include "tests/kernels/ternary.hpp"

namespace mq::test {
namespace {

using kernels::Decoded;
using kernels::Feedback;

// The definition, in code of the test's own: what finite vectors decode to.
template <class T>
std::vector<T> definition(const std::vector<T>& x, const std::vector<T>& residual, std::size_t bin,
                          std::size_t block) {
  std::vector<T> decoded(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += block) {
    const std::size_t end = std::min(x.size(), begin + block);
    std::vector<T> most((end - begin + bin - 1) / bin);
    for (std::size_t i = begin; i < end; ++i)
      most[(i - begin) / bin] = std::max(most[(i - begin) / bin], std::abs(x[i] + residual[i]));
    double mean = 0;
    for (const T m : most) mean += static_cast<double>(m) / static_cast<double>(most.size());
    const auto s = static_cast<T>(std::min(mean, static_cast<double>(std::numeric_limits<T>::max())));
    for (std::size_t i = begin; i < end; ++i) {
      const T g = x[i] + residual[i], h = g + x[i], of_bin = most[(i - begin) / bin];
      if (of_bin > 0 && std::abs(h) >= of_bin && std::abs(g) >= s / 2 && g != 0)
        decoded[i] = std::copysign(s, g);
    }
  }
  return decoded;
}

template <class Row>
std::size_t bin_of(const Row& row) {
  return static_cast<std::size_t>(row.params.value[position(*row.codec, "bin")]);
}

TEST(AdaComp, sends_what_the_definition_asks_for) {
  for_each_row_of("adacomp", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : {Input::normal, Input::laplace, Input::constant, Input::zeros, Input::one_sided,
                              Input::spikes, Input::mixed_scales})
      for (const std::size_t n : row.lengths())
        for (const bool carries : {false, true}) {
          const auto x = make_input<T>(input, n, seed());
          const auto e = carries ? make_input<T>(Input::laplace, n, seed() + 1) : std::vector<T>(n);
          const auto got = carries ? row.run(x, e, Feedback::carry) : row.run(x, {}, Feedback::none);
          ASSERT_EQ(got.decoded, definition(x, e, bin_of(row), row.block()))
              << row.describe(n, name(input)) << carries;
        }
  });
}

// Error feedback needs this of every element, whatever the scales of its neighbours.
TEST(AdaComp, no_error_exceeds_its_element) {
  for_each_row_of("adacomp", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : kInputs) {
      const std::size_t n = row.block() + 77;
      const auto x = make_input<T>(input, n, seed());
      const Coded<T> got = row.run(x, std::vector<T>(n), Feedback::carry);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_LE(std::abs(got.residual[i]), std::abs(x[i])) << row.describe(n, name(input)) << i;
    }
  });
}

// A bin sends at least one element where the newest vector agrees in sign with its greatest one, and none if
// it is zero, or if the newest vector opposes.
TEST(AdaComp, every_bin_sends_but_those_of_zeros_and_of_opposing_vectors) {
  const Row<float> row = fastest("adacomp", {{"bin", 50}, {"block", 1024}});
  const std::size_t bins = row.block() / 50, n = bins * 50;
  const auto in_bin = [](const std::vector<float>& v, std::size_t b) {
    return std::count_if(v.begin() + static_cast<std::ptrdiff_t>(50 * b),
                         v.begin() + static_cast<std::ptrdiff_t>(50 * b + 50),
                         [](float e) { return e != 0; });
  };
  auto x = make_input<float>(Input::uniform, n, seed()), e = x;
  for (std::size_t i = 0; i < 50; ++i) x[i] = e[i] = 0;
  const auto agreeing = row.run(x, e, Feedback::carry).decoded;
  EXPECT_EQ(in_bin(agreeing, 0), 0);
  for (std::size_t b = 1; b < bins; ++b) EXPECT_GE(in_bin(agreeing, b), 1) << b;
  for (std::size_t i = 0; i < n; ++i) e[i] = -3 * x[i];  // G = -2 x, H = -x
  const auto opposing = row.run(x, e, Feedback::carry).decoded;
  for (std::size_t b = 0; b < bins; ++b) EXPECT_EQ(in_bin(opposing, b), 0) << b;
}

// The paper's "about 40x" with bins of 50 and "about 200x" with bins of 500: bytes of float vectors over
// bytes of the wire, in the steady state on N(mu, 1) with mu from N(0, 0.1^2) for each element.
TEST(AdaComp, compresses_as_in_the_paper) {
  struct Case {
    double bin, least, most;
  };
  for (const Case& c : {Case{50, 39, 45}, Case{500, 170, 200}}) {
    const Row<float> row = fastest("adacomp", {{"bin", c.bin}});
    const std::size_t n = 4 * row.block();
    auto mu = make_input<float>(Input::normal, n, seed());
    for (float& m : mu) m *= 0.1F;
    std::vector<float> residual(n);
    std::size_t bytes = 0, calls = 0;
    for (std::uint64_t call = 0; call < 150; ++call) {
      auto x = fresh_input<float>(Input::normal, n, seed() + 1 + call);
      for (std::size_t i = 0; i < n; ++i) x[i] += mu[i];
      const Coded<float> got = row.run(x, residual, Feedback::carry);
      residual = got.residual;
      if (call < 100) continue;
      bytes += got.wire.size();
      ++calls;
    }
    const double ratio = static_cast<double>(4 * n * calls) / static_cast<double>(bytes);
    EXPECT_GT(ratio, c.least) << c.bin;
    EXPECT_LT(ratio, c.most) << c.bin;
    RecordProperty("ratio_" + std::to_string(static_cast<int>(c.bin)), std::to_string(ratio));
  }
}

TEST(AdaComp, the_mean_of_calls_is_right) {
  for (const double bin : {50, 500})
    expect_mean_of_calls_right(fastest("adacomp", {{"bin", bin}, {"block", 4096}}), Input::normal, 200);
}

// One byte an entry up to 63 elements a bin, else two; two bits an element where entries would not be
// shorter.
TEST(AdaComp, takes_the_bytes_of_its_format) {
  for (const double bin : {50, 63, 64, 500})
    for_each_isa("adacomp", {{"bin", bin}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t n = row.block(), entry = bin < 64 ? 1 : 2, header = 4 + sizeof(T);
      const Coded<T> first =
          row.run(make_input<T>(Input::normal, n, seed()), std::vector<T>(n), Feedback::carry);
      auto x = make_input<T>(Input::normal, n, seed() + 1);
      for (T& v : x) v /= 8;
      const Coded<T> got = row.run(x, first.residual, Feedback::carry);
      std::size_t entries = 0;
      for (std::size_t begin = 0; begin < n; begin += static_cast<std::size_t>(bin)) {
        std::size_t of_bin = 0;
        for (std::size_t i = begin; i < std::min(n, begin + static_cast<std::size_t>(bin)); ++i)
          of_bin += got.decoded[i] != 0;
        entries += std::max<std::size_t>(of_bin, 1);
      }
      EXPECT_EQ(got.wire.size(), header + entries * entry) << row.describe(n, "");
      EXPECT_LT(got.wire.size(), header + (n + 3) / 4) << "the test is to have entries";
      EXPECT_EQ(row.run(std::vector<T>(n, T{2}), {}, Feedback::none).wire.size(), header + (n + 3) / 4)
          << row.describe(n, "all elements");
      EXPECT_EQ(row.bound(n), header + sizeof(T) + (n + 3) / 4) << row.describe(n, "bound");
    });
}

TEST(AdaComp, refuses_what_encode_cannot_write) {
  for (const double bin : {50, 500})
    for_each_isa("adacomp", {{"bin", bin}, {"block", 1024}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t n = row.block(), header = 4 + sizeof(T), entry = bin < 64 ? 1 : 2;
      std::vector<T> x(n), out(n);
      for (std::size_t i = 0; i < n; i += 25) x[i] = 1;  // 0 and 25 of each bin
      const auto wire = row.run(x, {}, Feedback::none).wire;
      const std::size_t position = bin < 64 ? 63 : 16383, last = 2 * (position + 1);
      const auto refused = [&](std::size_t at, std::size_t value, const char* what) {
        auto hostile = wire;
        std::memcpy(hostile.data() + header + at * entry, &value, entry);
        EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), Decoded::malformed) << row.describe(n, what);
      };
      refused(0, static_cast<std::size_t>(bin), "a position beyond the bin");
      refused(0, position, "an empty bin that is not the last of its bin");
      refused(0, 25, "the same position twice");
      refused(1, position | last, "an empty bin with an element");
      refused(0, last, "more bins than there are");
      refused(wire.size() / entry - header / entry - 1, bin < 64 ? 25 : 475, "a last bin without its end");
      for (const T scale :
           {T{-1}, -T{0}, std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
        auto hostile = wire;
        std::memcpy(hostile.data() + 4, &scale, sizeof scale);
        EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), Decoded::malformed)
            << row.describe(n, "magnitude");
      }
      for (const unsigned format : {1, 2, 3}) {
        auto hostile = wire;
        hostile[3] |= static_cast<std::byte>(format << 6);
        EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), Decoded::malformed)
            << row.describe(n, "format") << format;
      }
    });
}

}  // namespace
}  // namespace mq::test
