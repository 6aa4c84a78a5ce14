// Vectors to test with: realistic, extreme and hostile ones, as a function of a seed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace mq::test {

// The seed of every random test; MPIQ_TEST_SEED replaces it.
inline std::uint64_t seed() {
  const char* const text = std::getenv("MPIQ_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20260712;
}

enum class Input {
  normal,
  laplace,
  uniform,
  signs,
  constant,
  zeros,
  one_sided,
  spikes,
  tiny,
  subnormal,
  huge,
  mixed_scales
};
inline constexpr Input kInputs[]{Input::normal,   Input::laplace,   Input::uniform,   Input::signs,
                                 Input::constant, Input::zeros,     Input::one_sided, Input::spikes,
                                 Input::tiny,     Input::subnormal, Input::huge,      Input::mixed_scales};
constexpr std::string_view name(Input input) {
  constexpr std::string_view names[]{"normal",   "laplace",   "uniform",   "signs",
                                     "constant", "zeros",     "one_sided", "spikes",
                                     "tiny",     "subnormal", "huge",      "mixed_scales"};
  return names[static_cast<int>(input)];
}

// n finite values, drawn anew. T: float or double.
template <class T>
std::vector<T> fresh_input(Input input, std::size_t n, std::uint64_t seed_value);

// The first n of such values, whatever n is. Kept, because tests of many rows ask for the same ones, and to
// draw them takes longer than to encode them.
template <class T>
std::vector<T> make_input(Input input, std::size_t n, std::uint64_t seed_value);

}  // namespace mq::test
