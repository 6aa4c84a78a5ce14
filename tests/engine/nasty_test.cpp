// The numerical matrix: every codec over every plan, and the inputs that break arithmetic: zeros, denormals,
// numbers whose sum overflows, NaN and infinities. What comes out is the same on all ranks, not finite where
// the sum is not, finite elsewhere, and nothing that is not finite stays in a residual.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include <string>
#include <vector>

#include "tests/engine/scene.hpp"

namespace mq::test {
namespace {

enum class Nasty {
  zeros,
  negative_zeros,
  ones,
  one_huge,
  denormals,
  greatest,       // the greatest number, on one rank
  near_overflow,  // the exact sum is just below it
  nan,            // one element of one rank
  infinity,       // one element of one rank
  infinities,     // +Inf and -Inf at one place on two ranks
  signs,
  constant,
  one_hot,
  wide_range,
};
constexpr std::array kNasty{Nasty::zeros,     Nasty::negative_zeros, Nasty::ones,          Nasty::one_huge,
                            Nasty::denormals, Nasty::greatest,       Nasty::near_overflow, Nasty::nan,
                            Nasty::infinity,  Nasty::infinities,     Nasty::signs,         Nasty::constant,
                            Nasty::one_hot,   Nasty::wide_range};
constexpr std::array<const char*, kNasty.size()> kNames{
    "zeros", "negative zeros", "ones",       "one huge", "denormals", "greatest", "near overflow",
    "NaN",   "infinity",       "infinities", "signs",    "constant",  "one hot",  "wide range"};
constexpr std::size_t kSpot = 70;  // of what is at one place

template <class T>
T nasty_value(Nasty kind, int rank, int ranks, std::size_t i) {
  using Limits = std::numeric_limits<T>;
  const auto plain =
      static_cast<T>(static_cast<int>((i * 31 + static_cast<std::size_t>(rank) * 17) % 19) - 9) / 8;
  const bool spot = i == kSpot;
  switch (kind) {
    case Nasty::zeros: return 0;
    case Nasty::negative_zeros: return -T{0};
    case Nasty::ones: return 1;
    case Nasty::one_huge: return spot && rank == 1 ? Limits::max() / 8 : plain;
    case Nasty::denormals: return plain * 8 * Limits::denorm_min();
    case Nasty::greatest: return rank == 0 ? Limits::max() : T{0};
    case Nasty::near_overflow: return Limits::max() / static_cast<T>(ranks) * T(0.999);
    case Nasty::nan: return spot && rank == 0 ? Limits::quiet_NaN() : plain;
    case Nasty::infinity: return spot && rank == 1 ? Limits::infinity() : plain;
    case Nasty::infinities:
      return spot && rank == 0 ? Limits::infinity() : spot && rank == 1 ? -Limits::infinity() : plain;
    case Nasty::signs: return i % 2 == 0 ? T(0.25) : T(-0.25);
    case Nasty::constant: return T(-3.75);
    case Nasty::one_hot: return spot && rank == 0 ? T{1} : T{0};
    case Nasty::wide_range: return std::ldexp(plain, static_cast<int>(i * 7 % 60) - 30);
  }
  return 0;
}

template <class T>
Vectors<T> nasty_inputs(Nasty kind, int ranks, std::size_t n) {
  Vectors<T> x(static_cast<std::size_t>(ranks), std::vector<T>(n));
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i) x[static_cast<std::size_t>(r)][i] = nasty_value<T>(kind, r, ranks, i);
  return x;
}

// The presets with short blocks, and each other word of a parameter that is one; but the ways to write
// positions, which change no value.
std::vector<Scene> methods() {
  std::vector<Scene> all;
  for (const Codec& codec : kernels::codecs()) {
    all.push_back({.codec = &codec});
    for (std::size_t i = 0; i < codec.specs.size(); ++i)
      for (double word = codec.specs[i].min; codec.specs[i].kind == kernels::ParamKind::word &&
                                             codec.specs[i].name != "format" && word <= codec.specs[i].max;
           ++word)
        if (word != codec.specs[i].preset) {
          all.push_back({.codec = &codec});
          all.back().values = {{i, word}};
        }
  }
  return all;
}

// The greatest number that the codec has.
template <class T>
double greatest(const Codec& codec) {
  if (codec.name == "f16") return 65504;
  if (codec.name == "bf16") return 0x1.fep127;
  if (codec.name == "threshold") return std::numeric_limits<double>::infinity();  // says so of no element
  return static_cast<double>(std::numeric_limits<T>::max());
}

// Whether no number on the way can be greater than the codec has, wherever it adds up.
template <class T>
bool tame(const Vectors<T>& x, const Codec& codec) {
  double sum = 0;
  for (const auto& v : x) {
    double most = 0;
    for (const T value : v)
      if (std::isfinite(value)) most = std::max(most, std::abs(static_cast<double>(value)));
    sum += most / greatest<T>(codec);
  }
  return sum < 0.5;
}

template <class T>
T sum_at(const Vectors<T>& x, std::size_t i) {
  T sum = x[0][i];
  for (std::size_t r = 1; r < x.size(); ++r) sum += x[r][i];
  return sum;
}

template <class T>
void expect_finite_where_the_sum_is(const Outcome<T>& got, const Vectors<T>& x, bool is_tame,
                                    const std::string& where) {
  for (std::size_t i = 0; i < x[0].size(); ++i) {
    bool finite = true;
    for (const auto& v : x) finite = finite && std::isfinite(v[i]);
    if (!finite || is_tame) {
      ASSERT_EQ(std::isfinite(got.output[0][i]), finite) << where << "at " << i;
    }
    for (std::size_t r = 0; r < x.size(); ++r)
      ASSERT_TRUE(std::isfinite(got.residual[r][i])) << where << "residual of rank " << r << " at " << i;
  }
}

// Bit for bit; but -0 and the +0 of a residual is +0.
template <class T>
void expect_lossless(const Outcome<T>& got, const Vectors<T>& x, bool feedback, const std::string& where) {
  for (std::size_t i = 0; i < x[0].size(); ++i) {
    const T sum = sum_at(x, i), out = got.output[0][i];
    if (std::isnan(sum)) {
      ASSERT_TRUE(std::isnan(out)) << where << "at " << i;
    } else if (x.size() == 2) {  // the order of more changes the rounding
      ASSERT_EQ(out, sum) << where << "at " << i;
      ASSERT_TRUE(feedback || std::signbit(out) == std::signbit(sum)) << where << "at " << i;
    }
  }
}

std::string describe(const Scene& scene, std::size_t n, Nasty kind) {
  std::string text = scene.describe(n) + kNames[static_cast<std::size_t>(kind)] + " ";
  for (const auto& [i, value] : scene.values)
    text += std::string(scene.codec->specs[i].name) + "=" +
            std::string(scene.codec->specs[i].words[static_cast<std::size_t>(value)]) + " ";
  return text;
}

template <class T>
void expect_nasty_input_is_survived(const Scene& scene, Nasty kind) {
  const std::size_t n = 128 * static_cast<std::size_t>(scene.ranks) + 7;
  const auto x = nasty_inputs<T>(kind, scene.ranks, n);
  const std::string where = describe(scene, n, kind) + (sizeof(T) == 4 ? "f32 " : "f64 ");
  const auto nothing = zeros<T>(scene.ranks, n);
  const Outcome<T> got = run(scene, x, nothing);
  expect_sound(got, where);
  const bool finite = kind != Nasty::nan && kind != Nasty::infinity && kind != Nasty::infinities;
  // A block of some codecs that holds an element that is not finite has no room for others, which then wait
  // in the residual; or have none.
  const bool no_room = !finite && scene.codec->marks_blocks && !scene.feedback;
  const bool is_tame = tame(x, *scene.codec);
  expect_finite_where_the_sum_is(got, x, is_tame && !no_room, where);
  if (scene.codec->lossless) expect_lossless(got, x, scene.feedback, where);
  if (!scene.feedback || !is_tame) return;
  if (finite) expect_conserved(got, x, nothing, where);
}

// Many calls of what is nearly too great: residuals grow, and must not grow beyond all numbers.
template <class T>
void expect_residuals_stay_finite(const Scene& scene, Nasty kind) {
  const std::size_t n = 128 * static_cast<std::size_t>(scene.ranks) + 7;
  const auto x = nasty_inputs<T>(kind, scene.ranks, n);
  auto residual = zeros<T>(scene.ranks, n);
  for (int call = 0; call < 4; ++call) {
    const Outcome<T> got = run(scene, x, std::move(residual));
    const std::string where = describe(scene, n, kind) + "call " + std::to_string(call) + " ";
    expect_sound(got, where);
    expect_finite_where_the_sum_is(got, x, false, where);
    residual = got.residual;
  }
}

template <class T>
void expect_nasty_inputs_are_survived(Scene scene) {
  for (const bool feedback : {true, false}) {
    scene.feedback = feedback;
    for (const Nasty kind : kNasty) expect_nasty_input_is_survived<T>(scene, kind);
  }
  scene.feedback = true;
  for (const Nasty kind : {Nasty::greatest, Nasty::near_overflow})
    expect_residuals_stay_finite<T>(scene, kind);
}

class NastyInputs : public testing::TestWithParam<int> {};

TEST_P(NastyInputs, are_reduced_alike_on_all_ranks_and_leave_finite_residuals) {
  for (const PlanRow& plan : plans())
    for (Scene scene : methods()) {
      scene.plan = &plan;
      scene.ranks = GetParam();
      for (const int per_node : node_sizes(plan, scene.ranks)) {
        scene.per_node = per_node;
        expect_nasty_inputs_are_survived<float>(scene);
        if (scene.ranks == 3) expect_nasty_inputs_are_survived<double>(scene);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, NastyInputs,
                         testing::ValuesIn(kSanitized ? std::vector{3} : std::vector{2, 3, 4}));

}  // namespace
}  // namespace mq::test
