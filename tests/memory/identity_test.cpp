// Whose residual is whose: made-up keys find the residual of the same tensor, and drop it when in doubt.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "mpi_quant/memory/identity.hpp"

namespace mq::test {
namespace {

using kernels::Element;

constexpr std::size_t kN = 4096;
constexpr std::uint64_t kPlenty = 1 << 30;

class Tensors : public testing::Test {
 protected:
  Tensors() {
    for (auto* const pattern : {&pattern_a_, &pattern_b_})
      for (float& p : *pattern) p = std::exp(2 * normal_(random_));
  }
  // The next step of a tensor, at its place: its elements keep their sizes, more or less.
  void fill(std::vector<float>& x, const std::vector<float>& pattern, float scale = 1) {
    for (std::size_t i = 0; i < kN; ++i) x[i] = scale * pattern[i] * normal_(random_);
  }
  void fill_with_noise(std::vector<float>& x) {
    for (float& v : x) v = normal_(random_);
  }
  Identities::Found see(Identity by, const std::vector<float>& x, std::string_view key = "",
                        std::uint64_t step = 0, std::size_t count = kN, std::size_t arrays = 1,
                        std::size_t mirrored = 0) {
    identities_.begin_call(step);
    return identities_.identify(by,
                                {reinterpret_cast<const std::byte*>(x.data()), count, Element::f32, key, step,
                                 0, arrays, mirrored > 0, mirrored},
                                residuals_, most_bytes_);
  }
  FeedbackOutcome after(int calls, std::vector<float>& x, const std::vector<float>& pattern) {
    FeedbackOutcome last = FeedbackOutcome::none;
    for (int i = 0; i < calls; ++i) {
      fill(x, pattern);
      last = see(Identity::address, x).what;
    }
    return last;
  }
  // What a call drops: the residual of its key gets `value` everywhere.
  void drop(const Identities::Found& found, float value) {
    Residuals::Entry& entry = *residuals_.find(found.key.view());
    ASSERT_TRUE(entry.move_to_host().ok());
    auto* const residual = reinterpret_cast<float*>(entry.buffer.data());
    for (std::size_t i = 0; i < entry.count; ++i) residual[i] += value;
  }
  // What a call feeds back.
  float fed(const Identities::Found& found) {
    float first = -1;
    EXPECT_TRUE(residuals_.find(found.key.view())->fetch(&first, 0, sizeof first).ok());
    return first;
  }

  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
  Identities identities_;
  Residuals residuals_;
  std::uint64_t most_bytes_ = kPlenty;
  std::vector<float> a_ = std::vector<float>(kN, 1), b_ = std::vector<float>(kN, 1);
  std::vector<float> pattern_a_ = std::vector<float>(kN), pattern_b_ = std::vector<float>(kN);
};

TEST_F(Tensors, without_a_stated_identity_there_is_no_feedback) {
  EXPECT_TRUE(see(Identity::off, a_, "k").key.empty());
  EXPECT_TRUE(see(Identity::key, a_).key.empty());
  EXPECT_TRUE(see(Identity::sequence, a_).key.empty()) << "no step was announced";
  EXPECT_EQ(residuals_.entries().size(), 0u);
}

TEST_F(Tensors, a_key_of_the_program_is_taken_at_once_and_by_every_identity) {
  for (const Identity by : {Identity::key, Identity::address, Identity::sequence}) {
    const std::string key = "layer " + std::string(name(by));
    EXPECT_EQ(see(by, a_, key).what, FeedbackOutcome::fresh);
    EXPECT_EQ(see(by, b_, key).what, FeedbackOutcome::hit) << "another buffer, the same key";
    EXPECT_EQ(see(by, b_, key).key.view(), key);
    EXPECT_NE(residuals_.find(key), nullptr);
  }
}

TEST_F(Tensors, an_address_is_believed_once_its_vectors_are_alike_and_nothing_was_lost_until_then) {
  for (int i = 0; i < 3; ++i) {
    fill(a_, pattern_a_);
    const Identities::Found found = see(Identity::address, a_);
    EXPECT_EQ(found.what, FeedbackOutcome::unconfirmed) << i;
    EXPECT_EQ(found.flushed, nullptr);
    EXPECT_EQ(fed(found), 0) << "nothing is fed back before the identity is confirmed";
    drop(found, 1);
  }
  fill(a_, pattern_a_);
  const Identities::Found found = see(Identity::address, a_);
  EXPECT_EQ(found.what, FeedbackOutcome::hit);
  EXPECT_EQ(fed(found), 3) << "what the calls before have dropped";
  EXPECT_EQ(after(100, a_, pattern_a_), FeedbackOutcome::hit);
  EXPECT_EQ(residuals_.entries().size(), 1u);
  EXPECT_EQ(Held::total(), kN * sizeof(float));
}

TEST_F(Tensors, a_stated_key_is_a_promise_whatever_the_values) {
  float scale = 1;
  for (int i = 0; i < 100; ++i, scale *= i % 7 == 0 ? 1000.0F : 0.3F) {
    if (i % 2 == 0)
      fill(a_, pattern_a_, scale);
    else
      fill_with_noise(a_);
    EXPECT_EQ(see(Identity::address, a_, "a").what, i == 0 ? FeedbackOutcome::fresh : FeedbackOutcome::hit)
        << i;
  }
}

TEST_F(Tensors, what_a_root_kept_waits_while_others_are_the_root) {
  drop(see(Identity::key, a_, "a"), 1);
  const Identities::Found nothing = see(Identity::key, a_, "a", 0, 0);
  EXPECT_TRUE(nothing.key.empty() && nothing.flushed != nullptr) << "it flushes with the others";
  EXPECT_EQ(fed(see(Identity::key, a_, "a")), 1);
}

// An estimate of the vector of all ranks, of which this rank has a part or nothing.
TEST_F(Tensors, an_estimate_of_all_parts_has_a_name_and_a_length_of_its_own) {
  const auto estimate = [&](std::size_t part, std::size_t all) {
    return see(Identity::key, a_, "k", 0, part, 1, all);
  };
  const Identities::Found sum = see(Identity::key, a_, "k"), first = estimate(kN, 3 * kN);
  EXPECT_EQ(first.what, FeedbackOutcome::fresh);
  EXPECT_NE(first.key.view(), sum.key.view());
  EXPECT_EQ(residuals_.find(first.key.view())->count, 3 * kN);
  EXPECT_EQ(estimate(0, 3 * kN).what, FeedbackOutcome::hit) << "other ranks send all now";
  EXPECT_EQ(estimate(kN, 4 * kN).what, FeedbackOutcome::shape);
  most_bytes_ = 5 * kN * sizeof(float);
  EXPECT_EQ(estimate(kN, 5 * kN).what, FeedbackOutcome::budget);
  most_bytes_ = kPlenty;
  EXPECT_TRUE(see(Identity::address, a_, "", 0, 0, 1, 3 * kN).key.empty()) << "nothing to be known by";
  for (int i = 0; i < 20; ++i) {
    fill(a_, pattern_a_);
    const Identities::Found found = see(Identity::address, a_, "", 0, kN, 1, 3 * kN);
    if (found.what != FeedbackOutcome::hit) continue;
    EXPECT_EQ(residuals_.find(found.key.view())->count, 3 * kN);
    return;
  }
  ADD_FAILURE() << "an address was never believed";
}

TEST_F(Tensors, a_factor_does_not_part_a_tensor_from_its_residual) {
  (void)after(10, a_, pattern_a_);
  for (const float scale : {0.2F, 1.0F, 4.0F, -1.0F}) {
    fill(a_, pattern_a_, scale);
    EXPECT_EQ(see(Identity::address, a_).what, FeedbackOutcome::hit) << scale;
  }
  // A factor of more than eight might be another vector with the same pattern. The second call shows that it
  // stays.
  for (const float scale : {1024.0F, 0.001F}) {
    fill(a_, pattern_a_, scale);
    EXPECT_EQ(see(Identity::address, a_).what, FeedbackOutcome::stranger) << scale;
    fill(a_, pattern_a_, scale);
    EXPECT_EQ(see(Identity::address, a_).what, FeedbackOutcome::hit) << scale;
  }
}

TEST_F(Tensors, a_stranger_gets_no_residual_and_the_tensors_own_waits) {
  (void)after(10, a_, pattern_a_);
  fill(a_, pattern_a_);
  drop(see(Identity::address, a_), 7);
  fill(a_, pattern_b_);
  const Identities::Found stranger = see(Identity::address, a_);
  EXPECT_EQ(stranger.what, FeedbackOutcome::stranger);
  EXPECT_TRUE(stranger.key.empty());
  fill(a_, pattern_a_);
  const Identities::Found back = see(Identity::address, a_);
  EXPECT_EQ(back.what, FeedbackOutcome::hit);
  EXPECT_EQ(fed(back), 7);
  EXPECT_EQ(after(3, a_, pattern_b_), FeedbackOutcome::stranger);
  EXPECT_EQ(residuals_.entries().size(), 0u) << "the tensor does not come any more";
}

TEST_F(Tensors, what_a_stranger_dropped_before_a_confirmation_is_fed_to_nobody) {
  for (int i = 0; i < 2; ++i) {
    fill(a_, i == 0 ? pattern_b_ : pattern_a_);
    drop(see(Identity::address, a_), i == 0 ? 100 : 1);
  }
  for (int i = 0; i < 2; ++i) {
    fill(a_, pattern_a_);
    drop(see(Identity::address, a_), 1);
  }
  fill(a_, pattern_a_);
  const Identities::Found found = see(Identity::address, a_);
  EXPECT_EQ(found.what, FeedbackOutcome::hit);
  EXPECT_EQ(fed(found), 3);
}

TEST_F(Tensors, tensors_in_turn_have_a_residual_each) {
  std::vector<std::string> keys;
  std::set<const std::uint64_t*> flushes;
  float dropped_a = 0, dropped_b = 0;
  for (int t = 0; t < 40; ++t) {
    fill(a_, t % 2 == 0 ? pattern_a_ : pattern_b_, t % 2 == 0 ? 1.0F : 100.0F);
    const Identities::Found found = see(Identity::address, a_);
    if (found.what == FeedbackOutcome::unconfirmed) {
      drop(found, 5);
      continue;
    }
    flushes.insert(found.flushed);
    // Each finds what it dropped itself, once for each time that it came before.
    float& mine = t % 2 == 0 ? dropped_a : dropped_b;
    EXPECT_EQ(fed(found), mine) << t;
    drop(found, t % 2 == 0 ? 1.0F : 100.0F);
    mine += t % 2 == 0 ? 1.0F : 100.0F;
    keys.emplace_back(found.key.view());
  }
  ASSERT_GT(keys.size(), 30u);
  EXPECT_EQ(flushes.size(), 2u) << "a flush reaches each of them";
  for (std::size_t i = 2; i < keys.size(); ++i) {
    EXPECT_EQ(keys[i], keys[i - 2]);
    EXPECT_NE(keys[i], keys[i - 1]);
  }
  EXPECT_EQ(residuals_.entries().size(), 2u);
}

TEST_F(Tensors, noise_is_not_looked_at_for_ever) {
  for (int i = 0; i < 300; ++i) {
    fill_with_noise(a_);
    const Identities::Found found = see(Identity::address, a_);
    EXPECT_EQ(found.what, FeedbackOutcome::unconfirmed);
    EXPECT_EQ(found.key.empty(), i >= 64) << i;
  }
  EXPECT_EQ(residuals_.entries().size(), 0u);
  for (int i = 0; i < 1100; ++i) (void)after(1, a_, pattern_a_);
  EXPECT_EQ(after(1, a_, pattern_a_), FeedbackOutcome::hit) << "later it is looked at again";
}

TEST_F(Tensors, another_shape_starts_afresh) {
  EXPECT_EQ(see(Identity::key, a_, "a").what, FeedbackOutcome::fresh);
  EXPECT_EQ(see(Identity::key, a_, "a", 0, kN / 2).what, FeedbackOutcome::shape);
  EXPECT_EQ(residuals_.find("a")->count, kN / 2);
  EXPECT_EQ(see(Identity::key, a_, "a", 0, kN / 2).what, FeedbackOutcome::hit);
}

TEST_F(Tensors, a_position_is_counted_from_each_step) {
  for (std::uint64_t step = 1; step < 8; ++step) {
    fill(a_, pattern_a_);
    fill(b_, pattern_b_, 100);
    const Identities::Found first = see(Identity::sequence, a_, "", step),
                            second = see(Identity::sequence, b_, "", step);
    EXPECT_EQ(first.key.view(), "~sequence:0");
    EXPECT_EQ(second.key.view(), "~sequence:1");
    EXPECT_EQ(first.what, step < 4 ? FeedbackOutcome::unconfirmed : FeedbackOutcome::hit);
    EXPECT_EQ(second.what, step < 4 ? FeedbackOutcome::unconfirmed : FeedbackOutcome::hit);
  }
  fill(b_, pattern_b_, 100);
  EXPECT_EQ(see(Identity::sequence, b_, "", 8).what, FeedbackOutcome::stranger)
      << "the first call was left out";
  EXPECT_EQ(see(Identity::sequence, b_, "", 9, kN / 2).what, FeedbackOutcome::shape);
}

TEST_F(Tensors, what_is_not_finite_leaves_the_residual_as_it_is) {
  (void)after(10, a_, pattern_a_);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::fill_n(a_.begin(), 100, bad);
    const Identities::Found found = see(Identity::address, a_);
    EXPECT_EQ(found.what, FeedbackOutcome::not_finite);
    EXPECT_TRUE(found.key.empty());
    EXPECT_EQ(residuals_.entries().size(), 1u);
  }
  EXPECT_EQ(after(1, a_, pattern_a_), FeedbackOutcome::hit);
}

TEST_F(Tensors, residuals_stay_within_their_budget) {
  most_bytes_ = Held::total() + 2 * kN * sizeof(float);
  for (int i = 0; i < 3; ++i) (void)see(Identity::key, a_, std::to_string(i));
  EXPECT_EQ(residuals_.entries().size(), 2u);
  EXPECT_EQ(see(Identity::key, a_, "2").what, FeedbackOutcome::budget);
  EXPECT_EQ(see(Identity::key, a_, "0").what, FeedbackOutcome::hit);
}

// As a call does that runs a memory rule of so many arrays.
TEST_F(Tensors, a_rule_of_more_arrays_finds_room_for_them_or_there_is_no_feedback) {
  most_bytes_ = Held::total() + 2 * kN * sizeof(float);
  EXPECT_EQ(see(Identity::key, a_, "k").what, FeedbackOutcome::fresh);
  EXPECT_EQ(see(Identity::key, a_, "k", 0, kN, 2).what, FeedbackOutcome::hit);
  EXPECT_EQ(see(Identity::key, a_, "k", 0, kN, 3).what, FeedbackOutcome::budget);
  EXPECT_EQ(see(Identity::key, a_, "k").what, FeedbackOutcome::hit) << "the residual stays";
}

TEST_F(Tensors, recognised_vectors_find_room_for_more_arrays_too) {
  EXPECT_EQ(after(6, a_, pattern_a_), FeedbackOutcome::hit);
  most_bytes_ = Held::total() + kN * sizeof(float);
  const auto with_arrays = [&](std::size_t arrays) {
    fill(a_, pattern_a_);
    return see(Identity::address, a_, "", 0, kN, arrays).what;
  };
  EXPECT_EQ(with_arrays(2), FeedbackOutcome::hit);
  EXPECT_EQ(with_arrays(3), FeedbackOutcome::budget);
  EXPECT_LE(Held::total(), most_bytes_);
  EXPECT_EQ(with_arrays(2), FeedbackOutcome::hit) << "the residual stays";
}

TEST_F(Tensors, addresses_that_come_once_do_not_keep_others_from_their_residuals) {
  most_bytes_ = Held::total() + 20 * kN * sizeof(float);
  std::vector<std::vector<float>> once(60, std::vector<float>(kN));
  for (auto& x : once) {
    fill_with_noise(x);
    (void)see(Identity::address, x);
    EXPECT_LE(Held::total(), most_bytes_);
  }
  EXPECT_EQ(after(6, a_, pattern_a_), FeedbackOutcome::hit);
  EXPECT_EQ(see(Identity::key, b_, "b").what, FeedbackOutcome::fresh);
  EXPECT_LE(Held::total(), most_bytes_);
}

TEST_F(Tensors, any_number_of_keys_is_kept) {
  for (int round = 0; round < 3; ++round)
    for (int k = 0; k < 3000; ++k)
      EXPECT_EQ(see(Identity::key, a_, std::to_string(k), 0, 64).what,
                round == 0 ? FeedbackOutcome::fresh : FeedbackOutcome::hit);
}

TEST_F(Tensors, the_budget_is_that_of_the_process) {
  most_bytes_ = Held::total() + kN * sizeof(float);
  Identities other_identities;
  Residuals other_residuals;
  const auto see_there = [&] {
    return other_identities.identify(
        Identity::key, {reinterpret_cast<const std::byte*>(a_.data()), kN, Element::f32, "there", 0, 0},
        other_residuals, most_bytes_);
  };
  EXPECT_EQ(see(Identity::key, a_, "here").what, FeedbackOutcome::fresh);
  EXPECT_EQ(see_there().what, FeedbackOutcome::budget);
  residuals_.clear();
  EXPECT_EQ(see_there().what, FeedbackOutcome::fresh);
}

TEST_F(Tensors, a_call_that_stays_exact_has_its_position_too) {
  for (std::uint64_t step = 1; step < 5; ++step) {
    identities_.begin_call(step);  // exact
    fill(b_, pattern_b_);
    EXPECT_EQ(see(Identity::sequence, b_, "", step).key.view(), "~sequence:1");
  }
}

TEST_F(Tensors, what_is_held_can_be_found_without_a_change) {
  const Sender sender{reinterpret_cast<const std::byte*>(a_.data()), kN, Element::f32, "a", 0, 0};
  EXPECT_TRUE(identities_.held(Identity::key, sender, residuals_).empty());
  (void)see(Identity::key, a_, "a");
  EXPECT_EQ(identities_.held(Identity::key, sender, residuals_).view(), "a");
  EXPECT_TRUE(identities_.held(Identity::off, sender, residuals_).empty());
  Sender shorter = sender;
  shorter.count = 5;
  EXPECT_TRUE(identities_.held(Identity::key, shorter, residuals_).empty());
}

TEST_F(Tensors, what_waits_of_tensors_in_turn_is_found_in_their_turn_and_nothing_of_an_unconfirmed_one) {
  const Sender sender{reinterpret_cast<const std::byte*>(a_.data()), kN, Element::f32, "", 0, 0};
  std::string key;
  for (int t = 0; t < 20; ++t) {
    fill(a_, t % 2 == 0 ? pattern_a_ : pattern_b_);
    key = see(Identity::address, a_).key.view();
    if (t < 3) {
      EXPECT_TRUE(identities_.held(Identity::address, sender, residuals_).empty());
    }
  }
  const Key next = identities_.held(Identity::address, sender, residuals_);
  EXPECT_NE(next.view(), key);
  EXPECT_NE(residuals_.find(next.view()), nullptr);
  residuals_.drop(next.view());
  EXPECT_EQ(identities_.held(Identity::address, sender, residuals_).view(), key);
}

TEST_F(Tensors, a_residual_of_the_programs_own_is_welcome_and_one_in_flight_is_left_alone) {
  Residuals::Entry* const entry = *residuals_.acquire("mine", kN, Element::f32);
  reinterpret_cast<float*>(entry->buffer.data())[3] = 7;
  EXPECT_EQ(see(Identity::key, a_, "mine").what, FeedbackOutcome::hit);
  EXPECT_EQ(reinterpret_cast<const float*>(residuals_.find("mine")->buffer.data())[3], 7);
  entry->users = 1;
  EXPECT_TRUE(see(Identity::key, a_, "mine").key.empty());
  EXPECT_TRUE(see(Identity::key, a_, "mine", 0, kN / 2).key.empty());
  EXPECT_NE(residuals_.find("mine"), nullptr);
}

}  // namespace
}  // namespace mq::test
