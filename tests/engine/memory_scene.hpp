// Every memory rule over codecs, plans and numbers of ranks.
#pragma once

#include <string>
#include <vector>

#include "tests/engine/scene.hpp"

namespace mq::test {

// Calls property(scene, n) for every codec x plan x number of ranks, with this rule. Few lengths:
// execute_test.cpp has more.
template <class F>
void for_each_scene_of(const kernels::MemoryRule& rule, const F& property) {
  const auto lengths = [](std::size_t ranks) {
    return std::array<std::size_t, 4>{0, ranks + 1, 64 * ranks + 5, 5000};
  };
  const auto of_rule = [&](Scene scene, std::size_t n) {
    scene.memory = &rule;
    property(scene, n);
  };
  for_each_scene_in_turn(kSanitized ? std::vector{3, 5} : std::vector{2, 3, 5, 8}, lengths, of_rule);
}

// The arrays of a rule: `e` is the residual, the others are zero.
template <class T>
Vectors<T> with_arrays(const kernels::MemoryRule& rule, Vectors<T> e) {
  for (auto& arrays : e) arrays.resize(arrays.size() * static_cast<std::size_t>(std::max(1, rule.arrays)));
  return e;
}
// Array number `a` of all ranks.
template <class T>
Vectors<T> array_of(const Vectors<T>& arrays, std::size_t a, std::size_t n) {
  Vectors<T> out;
  for (const auto& of_rank : arrays) {
    const auto first = of_rank.begin() + static_cast<std::ptrdiff_t>(a * n);
    out.emplace_back(first, first + static_cast<std::ptrdiff_t>(n));
  }
  return out;
}

template <class T>
void expect_same(const Outcome<T>& a, const Outcome<T>& b, const std::string& where) {
  for (std::size_t r = 0; r < a.output.size(); ++r) {
    ASSERT_TRUE(same_bits(a.output[r], b.output[r])) << where << "result of rank " << r;
    ASSERT_TRUE(same_bits(a.residual[r], b.residual[r])) << where << "arrays of rank " << r;
  }
}

}  // namespace mq::test
