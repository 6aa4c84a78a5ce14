// How good the lossy codecs are: against the optimum for their format and against theory, not only against
// themselves. NMSE is |v - decoded|^2 / |v|^2.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/inputs.hpp"
#include "tests/rows.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

TEST(Quality, every_codec_returns_at_most_the_energy_error_of_sending_nothing) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : {Input::normal, Input::laplace, Input::uniform, Input::constant,
                              Input::one_sided, Input::spikes, Input::mixed_scales}) {
      const auto x = make_input<T>(input, 5000, seed());
      ASSERT_LT(squared_error(x, row.run(x, {}, Feedback::none).decoded), squares(x))
          << row.describe(5000, name(input));
    }
  });
}

TEST(Quality, every_codec_treats_signs_alike) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : {Input::normal, Input::one_sided, Input::spikes}) {
      auto x = make_input<T>(input, 3000, seed());
      const auto plus = row.run(x, {}, Feedback::none).decoded;
      for (T& v : x) v = -v;
      const auto minus = row.run(x, {}, Feedback::none).decoded;
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(plus[i], -minus[i]) << row.describe(3000, name(input)) << " at " << i;
    }
  });
}

TEST(Bf16, relative_error_is_at_most_half_a_unit_in_the_eighth_bit) {
  for_each_row_of("bf16", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input :
         {Input::normal, Input::laplace, Input::uniform, Input::mixed_scales, Input::tiny}) {
      const auto x = make_input<T>(input, 4000, seed());
      const auto y = row.run(x, {}, Feedback::none).decoded;
      for (std::size_t i = 0; i < x.size(); ++i)  // doubles are rounded twice
        ASSERT_LE(std::abs(x[i] - y[i]),
                  std::abs(x[i]) * static_cast<T>(sizeof(T) == 4 ? 0x1p-8 : 0x1.00001p-8))
            << name(input) << " " << x[i];
    }
  });
}

TEST(Bf16, rounds_to_nearest_even_on_every_tie_and_beside_it) {
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

}  // namespace
}  // namespace mq::test
