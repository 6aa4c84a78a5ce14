// fft: the transform follows the definition, the coefficients with most energy are sent, and the error is
// what theory says.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Decoded;
using kernels::Feedback;

// The discrete Fourier transform by its definition, in double: coefficients 0 to n / 2.
template <class T>
std::vector<std::complex<double>> transform(const std::vector<T>& x) {
  const std::size_t n = x.size();
  std::vector<std::complex<double>> turn(n), result(n / 2 + 1);
  for (std::size_t i = 0; i < n; ++i)
    turn[i] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n));
  for (std::size_t k = 0; k <= n / 2; ++k)
    for (std::size_t j = 0; j < n; ++j) result[k] += static_cast<double>(x[j]) * turn[j * k % n];
  return result;
}
double weight(std::size_t k, std::size_t n) { return k == 0 || k == n / 2 ? 1 : 2; }

template <class T>
double greatest(const std::vector<T>& x) {
  double most = 0;
  for (const T v : x) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

// With keep=1 and bits=32 only the rounding of two transforms is lost: log2(L) steps each.
TEST(Fft, of_all_coefficients_is_exact_but_for_rounding) {
  for (const double chunk : {64, 128, 1024, 2048, 4096})
    for_each_isa("fft", {{"keep", 1}, {"bits", 32}, {"chunk", chunk}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const double u = std::numeric_limits<T>::epsilon();
      for (const Input input : {Input::normal, Input::spikes, Input::tiny, Input::mixed_scales})
        for (const std::size_t n : {row.block(), 2 * row.block() + 17, std::size_t{15}, std::size_t{16}}) {
          const auto x = make_input<T>(input, n, seed());
          const auto decoded = row.run(x, {}, Feedback::none).decoded;
          const double tolerance = 2 * u * std::log2(chunk) * greatest(x);
          for (std::size_t i = 0; i < n; ++i)
            ASSERT_NEAR(static_cast<double>(decoded[i]), static_cast<double>(x[i]), tolerance)
                << row.describe(n, name(input)) << i;
        }
    });
}

// The squared error is the energy of the coefficients that are not sent (Parseval), and those are the ones
// with the least.
TEST(Fft, loses_the_energy_of_what_it_does_not_send) {
  for (const double chunk : {64, 1024, 4096})
    for (const double keep : {0.01, 0.15, 0.5})
      for_each_isa("fft", {{"keep", keep}, {"bits", 32}, {"chunk", chunk}}, [&](const auto& row) {
        using T = typename std::decay_t<decltype(row)>::Type;
        if (row.isa != kernels::best_isa()) return;  // the others write the same bytes
        const std::size_t n = row.block();
        for (const Input input : {Input::normal, Input::laplace}) {
          const auto x = make_input<T>(input, n, seed());
          const auto spectrum = transform(x);
          std::vector<double> energy(spectrum.size());
          for (std::size_t k = 0; k < energy.size(); ++k)
            energy[k] = weight(k, n) * std::norm(spectrum[k]) / static_cast<double>(n);
          std::sort(energy.begin(), energy.end());
          const auto sent = static_cast<std::size_t>(std::ceil(keep * static_cast<double>(n / 2 + 1)));
          const double lost =
              std::accumulate(energy.begin(), energy.end() - static_cast<std::ptrdiff_t>(sent), 0.0);
          const double error = squared_error(x, row.run(x, {}, Feedback::none).decoded);
          EXPECT_NEAR(error / lost, 1, 1e-4) << row.describe(n, name(input));
          EXPECT_LE(error, (1 - keep) * squares(x)) << row.describe(n, name(input));
        }
      });
}

// Of independent elements the share keep of coefficients has keep (1 + ln(1 / keep)) of the energy; the small
// floats lose little beside that.
TEST(Fft, keeps_the_energy_that_theory_says) {
  for (const double keep : {0.1, 0.15, 0.3}) {
    const Row<float> row = fastest("fft", {{"keep", keep}});
    const auto x = make_input<float>(Input::normal, 64 * 4096, seed());
    const double lost = squared_error(x, row.run(x, {}, Feedback::none).decoded) / squares(x);
    EXPECT_NEAR(1 - lost, keep * (1 + std::log(1 / keep)), 0.01) << keep;
  }
}

// A sum of few waves is sent by few coefficients.
TEST(Fft, sends_waves_by_few_coefficients) {
  for_each_isa("fft", {{"keep", 0.002}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = row.block();
    std::vector<T> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
      x[i] = static_cast<T>(std::cos(3 * angle) + 0.5 * std::sin(100 * angle) - 0.25);
    }
    const auto decoded = row.run(x, {}, Feedback::none).decoded;
    EXPECT_LT(squared_error(x, decoded), 0.002 * squares(x)) << row.describe(n, "");  // 3 bits of mantissa
  });
}

// The transform is linear: decoded chunks may be added in place of their coefficients.
TEST(Fft, the_sum_of_decoded_vectors_is_the_inverse_of_the_sum_of_coefficients) {
  const Row<double> row{kernels::find_codec("fft"), with_values(*kernels::find_codec("fft"), {{"bits", 32}}),
                        kernels::best_isa()};
  const std::size_t n = row.block();
  std::vector<double> sum(n);
  std::vector<std::complex<double>> spectrum(n / 2 + 1);
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    const auto decoded =
        row.run(make_input<double>(Input::laplace, n, seed() + rank), {}, Feedback::none).decoded;
    const auto of_rank = transform(decoded);
    for (std::size_t i = 0; i < n; ++i) sum[i] += decoded[i];
    for (std::size_t k = 0; k < spectrum.size(); ++k) spectrum[k] += of_rank[k];
  }
  const auto of_sum = transform(sum);
  for (std::size_t k = 0; k < spectrum.size(); ++k) ASSERT_LT(std::abs(of_sum[k] - spectrum[k]), 1e-9) << k;
}

// Ties go to the lowest index: all coefficients of a lone spike have the same energy.
TEST(Fft, of_coefficients_with_the_same_energy_the_first_are_sent) {
  for_each_isa("fft", {{"keep", 0.25}, {"bits", 32}, {"chunk", 64}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    std::vector<T> x(64);
    x[0] = 1;
    const auto wire = row.run(x, {}, Feedback::none).wire;
    std::uint64_t bitmap = 0;
    std::memcpy(&bitmap, wire.data() + 4, 5);
    EXPECT_EQ(bitmap, 0x3feu) << row.describe(64, "9 of 33: those that count twice, from 1 on");
  });
}

// 1 / 16 for the bits, keep bits / 8 for the parts, 8 bytes for the rest: within 1 % of the estimate of 16
// bytes for the rest.
TEST(Fft, takes_the_bytes_that_theory_says) {
  for (const double keep : {0.15, 0.3, 0.5}) {
    const Row<float> row = fastest("fft", {{"keep", keep}});
    const std::size_t n = 16 * row.block();
    const auto bytes =
        static_cast<double>(
            row.run(make_input<float>(Input::normal, n, seed()), {}, Feedback::none).wire.size()) /
        static_cast<double>(n);
    const double theory = 0.0625 + keep + 16 / 4096.0;
    EXPECT_NEAR(bytes / theory, 1, 0.01) << keep;
    EXPECT_EQ(row.bound(n), static_cast<std::size_t>(bytes * static_cast<double>(n))) << keep;
  }
}

TEST(Fft, great_magnitudes_wait_or_are_lost_loudly) {
  for_each_isa("fft", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const T most = std::numeric_limits<T>::max();
    for (const bool fits : {true, false}) {
      const std::vector<T> x(100, fits ? most / 5 : most / 3);
      const Coded<T> carried = row.run(x, std::vector<T>(100), Feedback::carry);
      const auto alone = row.run(x, {}, Feedback::none).decoded;
      for (std::size_t i = 0; i < 100; ++i) {
        ASSERT_TRUE(fits || (carried.decoded[i] == 0 && carried.residual[i] == x[i]))
            << row.describe(100, "");
        ASSERT_TRUE(std::isfinite(carried.residual[i])) << row.describe(100, "");
        ASSERT_EQ(std::isnan(alone[i]), !fits) << row.describe(100, "");
      }
      EXPECT_EQ(carried.nonfinite, 0u);
    }
  });
}

TEST(Fft, refuses_what_encode_cannot_write) {
  for (const double bits : {8, 6, 32})
    for_each_isa("fft", {{"bits", bits}, {"chunk", 64}, {"keep", 0.5}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t n = 64, top = bits < 32 ? sizeof(T) : 0;
      std::vector<T> out(n);
      const auto wire = row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none).wire;
      const auto refused = [&](std::size_t at, auto value, const char* what) {
        auto hostile = wire;
        std::memcpy(hostile.data() + at, &value, sizeof value);
        EXPECT_EQ(row.decode(hostile, n, nullptr, out.data()), Decoded::malformed) << row.describe(n, what);
      };
      refused(0, std::int16_t{2000}, "exponent");
      refused(2, std::uint16_t{0}, "a chunk that is not short, as it is");
      refused(2, std::uint16_t{2}, "marks");
      refused(2, std::uint16_t{4}, "format");
      refused(4 + top + 4, std::uint8_t{0xff}, "bits behind the last coefficient");
      refused(4 + top, std::uint32_t{~0u}, "too many coefficients");
      if (bits < 32) refused(4, T{0}, "top of the range");
      if (bits < 32) refused(4 + top + 5, std::uint64_t{~0ull}, "infinite parts");
      if (bits == 32) refused(4 + 5, std::numeric_limits<T>::quiet_NaN(), "parts that are no numbers");
    });
}

}  // namespace
}  // namespace mq::test
