// Memory rules on tiles, over the table: all instruction sets give the same bits, nothing beyond a tile is
// touched, arrays stay finite, and the norm of a vector is right whatever its magnitude.

#include "kernels/memory.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

using kernels::Element;
using kernels::Isa;
using kernels::MemoryRule;
using kernels::MemoryTile;
using kernels::Operand;

template <class T>
constexpr Element kElement = sizeof(T) == 8 ? Element::f64 : Element::f32;

std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (const Isa isa : kernels::kIsas)
    if (isa <= kernels::best_isa()) all.push_back(isa);
  return all;
}

// What a call does to a tile, with a codec that sends every second element, and arrays at an odd address.
template <class T>
std::vector<std::byte> bytes_after(const MemoryRule& rule, const kernels::Params& params, Isa isa,
                                   const std::vector<T>& x, Input kind) {
  const std::size_t n = x.size(), size = n * sizeof(T), arrays = static_cast<std::size_t>(rule.arrays);
  const kernels::MemoryOps& ops = *rule.ops(kElement<T>, isa);
  std::vector<std::byte> memory((arrays + 1) * (size + 8) + 1, std::byte{0x5a});  // 8 bytes after each array
  MemoryTile tile;
  tile.x = x.data();
  tile.n = n;
  tile.params = params;
  tile.factor = 0.3;
  const auto place = [&](std::size_t i) { return memory.data() + 1 + i * (size + 8); };
  for (std::size_t i = 0; i < arrays; ++i) {
    const auto values = make_input<T>(kind, n, seed() + 7 * i);
    if (n > 0) std::memcpy(place(i), values.data(), size);  // data() of no elements may be null
    tile.array[i] = place(i);
  }
  tile.scratch = place(arrays);
  std::memset(tile.scratch, 0, size);
  const Operand operand = ops.before(tile);
  for (std::size_t i = 0; i < n; ++i) {
    T v, left;
    std::memcpy(&v, static_cast<const std::byte*>(operand.x) + i * sizeof(T), sizeof v);
    std::memcpy(&left, static_cast<std::byte*>(operand.residual) + i * sizeof(T), sizeof left);
    left = i % 2 == 0 || !std::isfinite(v + left) ? T{0} : v + left;
    std::memcpy(static_cast<std::byte*>(operand.residual) + i * sizeof(T), &left, sizeof left);
  }
  if (ops.after != nullptr) ops.after(tile);
  for (std::size_t i = 0; i <= arrays; ++i)
    for (std::size_t k = 0; k < 8; ++k)
      EXPECT_EQ(place(i)[size + k], std::byte{0x5a}) << rule.name << " wrote beyond array " << i;
  for (std::size_t i = 0; i < arrays; ++i)
    for (std::size_t k = 0; k < n; ++k) {
      T value;
      std::memcpy(&value, place(i) + k * sizeof(T), sizeof value);
      EXPECT_TRUE(std::isfinite(value)) << rule.name << ", array " << i << " at " << k;
    }
  memory.resize(1 + arrays * (size + 8));  // what a NaN's bits are in the scratch memory does not matter
  return memory;
}

std::vector<kernels::Params> settings(const MemoryRule& rule) {
  std::vector<kernels::Params> all{kernels::preset_params(rule)};
  for (std::size_t i = 0; i < rule.specs.size(); ++i)
    for (const double value : {rule.specs[i].min, rule.specs[i].max}) {
      all.push_back(all[0]);
      all.back().value[i] = value;
    }
  return all;
}

template <class T>
void expect_same_bits() {
  for (const MemoryRule& rule : kernels::memory_rules()) {
    if (rule.ops == nullptr) continue;
    for (const kernels::Params& params : settings(rule))
      for (const Input kind : kInputs)
        for (const std::size_t n : {0, 1, 31, 32, 33, 200}) {
          auto x = make_input<T>(kind, n, seed());
          if (n > 30) x[1] = std::numeric_limits<T>::quiet_NaN(), x[30] = -std::numeric_limits<T>::infinity();
          const auto expected = bytes_after(rule, params, Isa::scalar, x, kind);
          for (const Isa isa : isas())
            ASSERT_EQ(bytes_after(rule, params, isa, x, kind), expected)
                << rule.name << " " << name(isa) << " " << name(kind) << " n=" << n;
        }
  }
}

TEST(Memory, all_instruction_sets_give_the_same_bits_and_arrays_stay_finite) {
  expect_same_bits<float>();
  expect_same_bits<double>();
}

TEST(Memory, rows_are_sound) {
  std::set<std::uint8_t> ids;
  std::set<std::string_view> names;
  for (const MemoryRule& rule : kernels::memory_rules()) {
    EXPECT_TRUE(ids.insert(rule.id).second && rule.id > 0) << rule.name;
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_EQ(kernels::find_memory_rule(rule.name), &rule);
    EXPECT_FALSE(rule.what.empty()) << rule.name;
    EXPECT_LE(rule.specs.size(), kernels::kMaxParams) << rule.name;
    EXPECT_LE(static_cast<std::size_t>(rule.arrays), kernels::kMaxArrays) << rule.name;
    if (rule.ops != nullptr) {
      EXPECT_GE(rule.arrays, 1) << rule.name;
    }
    for (const auto& spec : rule.specs)
      EXPECT_TRUE(spec.min <= spec.preset && spec.preset <= spec.max) << spec.name;
  }
  EXPECT_EQ(kernels::carry_rule().name, "carry");
}

template <class T>
void expect_norms(double magnitude) {
  const kernels::MemoryOps& ops =
      *kernels::find_memory_rule("momentum")->ops(kElement<T>, kernels::best_isa());
  for (const std::size_t n : {0, 1, 15, 16, 17, 1000}) {
    std::vector<T> x(n);
    long double squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<T>(magnitude * std::sin(static_cast<double>(i)));
      squares += static_cast<long double>(x[i]) * static_cast<long double>(x[i]);
    }
    const double scale = magnitude > 1e150 ? 0x1p-600 : 1;
    const double sum = ops.squares(x.data(), n, scale);
    const auto expected = static_cast<double>(std::sqrt(squares));
    EXPECT_NEAR(ops.norm(sum, scale), expected, expected * 1e-14) << magnitude << " n=" << n;
    for (const Isa isa : isas())
      EXPECT_EQ(kernels::find_memory_rule("momentum")->ops(kElement<T>, isa)->squares(x.data(), n, scale),
                sum);
  }
}

TEST(Memory, norms_are_right_at_every_magnitude) {
  for (const double magnitude : {1e-30, 1.0, 1e30}) expect_norms<float>(magnitude);
  for (const double magnitude : {1e-140, 1.0, 1e140, 1e300}) expect_norms<double>(magnitude);
}

TEST(Memory, elements_that_are_not_finite_do_not_count_in_a_norm) {
  const std::vector<float> x{3, std::numeric_limits<float>::quiet_NaN(), 4,
                             std::numeric_limits<float>::infinity()};
  EXPECT_EQ(kernels::find_memory_rule("momentum")->ops(Element::f32, Isa::scalar)->squares(x.data(), 4, 1),
            25.0);
}

// State of a rule that multiplies it: decay's residual or momentum's u. The other array and the vector are 0.
template <class T>
struct Fading {
  std::vector<T> x, state, other, scratch;
  MemoryTile tile;
  Fading(const MemoryRule& rule, double factor, const std::vector<T>& begin)
      : x(begin.size()), state(begin), other(begin.size()), scratch(begin.size()) {
    const bool decays = rule.name == "decay";
    tile.x = x.data();
    tile.array = {decays ? state.data() : other.data(), decays ? nullptr : state.data()};
    tile.scratch = scratch.data();
    tile.n = begin.size();
    tile.params = kernels::preset_params(rule);
    tile.params.value[0] = factor;
  }
};

// Begins with greatest and least numbers, subnormal ones, and the least normal number, with both signs.
template <class T>
void expect_fading(const char* name, double factor, Isa isa) {
  using Limits = std::numeric_limits<T>;
  const MemoryRule& rule = *kernels::find_memory_rule(name);
  const kernels::MemoryOps& ops = *rule.ops(kElement<T>, isa);
  auto begin = make_input<T>(Input::normal, 100, seed());
  begin[0] = Limits::max(), begin[1] = Limits::denorm_min(), begin[2] = -Limits::min(), begin[99] = -begin[1];
  Fading<T> fading(rule, factor, begin);
  const double powers = Limits::max_exponent - Limits::min_exponent + 1;
  const int calls = 1 + static_cast<int>(std::ceil(powers * std::log(2) / -std::log(factor)));
  for (int call = 1; call <= calls; ++call) {
    (void)ops.before(fading.tile);
    for (const T v : fading.state)
      ASSERT_TRUE(v == 0 || std::isnormal(v)) << name << ", call " << call << ": " << static_cast<double>(v);
  }
  EXPECT_EQ(fading.state, std::vector<T>(begin.size())) << name << ", factor " << factor;
}

TEST(Memory, what_fades_becomes_zero_and_is_never_subnormal) {
  for (const Isa isa : isas())
    for (const char* const rule : {"decay", "momentum"})
      for (const double factor : {0.9, 0.5, 0.01}) {
        expect_fading<float>(rule, factor, isa);
        expect_fading<double>(rule, factor, isa);
      }
}

TEST(Memory, a_factor_of_1_keeps_subnormal_residuals) {
  const MemoryRule& rule = *kernels::find_memory_rule("decay");
  auto begin = make_input<float>(Input::subnormal, 50, seed());
  begin[3] = -0.0F;
  for (const Isa isa : isas()) {
    Fading<float> fading(rule, 1, begin);
    (void)rule.ops(Element::f32, isa)->before(fading.tile);
    EXPECT_EQ(std::memcmp(fading.state.data(), begin.data(), begin.size() * sizeof(float)), 0) << name(isa);
  }
}

TEST(Memory, state_that_fades_stays_NaN) {
  const std::vector<float> begin(50, std::numeric_limits<float>::quiet_NaN());
  for (const Isa isa : isas())
    for (const char* const name : {"decay", "momentum"}) {
      const MemoryRule& rule = *kernels::find_memory_rule(name);
      Fading<float> fading(rule, 0.5, begin);
      (void)rule.ops(Element::f32, isa)->before(fading.tile);
      for (const float v : fading.state) EXPECT_TRUE(std::isnan(v)) << name;
    }
}

}  // namespace
}  // namespace mq::test
