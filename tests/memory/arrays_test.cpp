// The arrays that a key keeps: as many as the rules of its calls need, and what becomes of them when
// residuals are put aside.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "mpi_quant/memory/residuals.hpp"

namespace mq {
namespace {

using kernels::Element;

constexpr std::size_t kN = 5;

float* floats(Residuals::Entry& entry) { return reinterpret_cast<float*>(entry.data()); }
std::vector<float> all(Residuals::Entry& entry) { return {floats(entry), floats(entry) + entry.arrays * kN}; }

TEST(Arrays, a_key_gets_as_many_as_its_rules_need_and_keeps_what_it_has) {
  Residuals residuals;
  Residuals::Entry* const entry = *residuals.acquire("w", kN, Element::f32);
  std::iota(floats(*entry), floats(*entry) + kN, 1.0f);
  EXPECT_EQ(*residuals.acquire("w", kN, Element::f32, 2), entry);
  EXPECT_EQ(entry->arrays, 2u);
  EXPECT_EQ(all(*entry), (std::vector<float>{1, 2, 3, 4, 5, 0, 0, 0, 0, 0}));
  floats(*entry)[9] = 7;
  EXPECT_EQ(*residuals.acquire("w", kN, Element::f32, 1), entry);
  EXPECT_EQ(entry->arrays, 2u) << "a rule that needs fewer leaves the others";
  EXPECT_EQ(floats(*entry)[9], 7);
  EXPECT_EQ(Held::total(), entry->bytes());
}

TEST(Arrays, a_key_that_a_call_uses_stays_as_it_is) {
  Residuals residuals;
  Residuals::Entry* const entry = *residuals.acquire("w", kN, Element::f32);
  entry->users = 1;
  EXPECT_EQ(*residuals.acquire("w", kN, Element::f32, 2), entry);
  EXPECT_EQ(entry->arrays, 1u);
}

TEST(Arrays, what_was_put_aside_is_added_to_the_residual_and_not_to_other_arrays) {
  Residuals residuals;
  Residuals::Entry* const entry = *residuals.acquire("w", kN, Element::f64, 2);
  const auto doubles = [&] { return reinterpret_cast<double*>(entry->data()); };
  std::fill(doubles(), doubles() + 2 * kN, 1.0);
  ASSERT_TRUE(entry->set_aside().ok());
  ASSERT_TRUE(entry->move_to_host().ok());
  EXPECT_EQ(doubles()[0], 0);
  std::fill(doubles(), doubles() + 2 * kN, 4.0);
  ASSERT_TRUE(entry->take_back().ok());
  for (std::size_t i = 0; i < kN; ++i) {
    EXPECT_EQ(doubles()[i], 5);
    EXPECT_EQ(doubles()[kN + i], 4);
  }
}

TEST(Arrays, a_key_grows_with_what_was_put_aside) {
  Residuals residuals;
  Residuals::Entry* const entry = *residuals.acquire("w", kN, Element::f32);
  std::fill(floats(*entry), floats(*entry) + kN, 3.0f);
  ASSERT_TRUE(entry->set_aside().ok());
  ASSERT_TRUE(residuals.acquire("w", kN, Element::f32, 2).ok());
  EXPECT_EQ(all(*entry), (std::vector<float>{3, 3, 3, 3, 3, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace mq
