// Whose residual is whose: made-up keys find the residual of the same tensor, and drop it when in doubt.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "mpi_quant/base/front.h"
#include "mpi_quant/pmpi/control.hpp"
#include "mpi_quant/pmpi/identity.hpp"

namespace mq::test {
namespace {

using kernels::Element;

constexpr std::size_t kN = 4096;
constexpr std::uint64_t kPlenty = 1 << 30;

class Tensors : public testing::Test {
 protected:
  // New values of the scale of a tensor, at its place.
  void fill(std::vector<float>& x, float scale) {
    std::normal_distribution<float> normal(0, scale);
    for (float& v : x) v = normal(random_);
  }
  Identities::Found see(Identity by, const std::vector<float>& x, std::string_view key = "",
                        std::uint64_t step = 0, std::size_t count = kN) {
    identities_.begin_call(step);
    return identities_.identify(
        by, {reinterpret_cast<const std::byte*>(x.data()), count, Element::f32, key, step, 0}, residuals_,
        most_bytes_);
  }
  Feedback after(int calls, Identity by, std::vector<float>& x, float scale) {
    Feedback last = Feedback::none;
    for (int i = 0; i < calls; ++i) {
      fill(x, scale);
      last = see(by, x).what;
    }
    return last;
  }

  std::mt19937 random_{1};
  Identities identities_;
  Residuals residuals_;
  std::uint64_t most_bytes_ = kPlenty;
  std::vector<float> a_ = std::vector<float>(kN, 1), b_ = std::vector<float>(kN, 1);
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
    EXPECT_EQ(see(by, a_, key).what, Feedback::fresh);
    EXPECT_EQ(see(by, b_, key).what, Feedback::hit) << "another buffer, the same key";
    EXPECT_EQ(see(by, b_, key).key.view(), key);
    EXPECT_NE(residuals_.find(key), nullptr);
  }
}

TEST_F(Tensors, an_address_is_believed_after_a_few_uses) {
  EXPECT_EQ(after(1, Identity::address, a_, 1), Feedback::recorded);
  EXPECT_EQ(residuals_.entries().size(), 0u);
  EXPECT_EQ(after(2, Identity::address, a_, 1), Feedback::recorded);
  EXPECT_EQ(after(1, Identity::address, a_, 1), Feedback::fresh);
  EXPECT_EQ(after(100, Identity::address, a_, 1), Feedback::hit);
  EXPECT_EQ(residuals_.entries().size(), 1u);
}

TEST_F(Tensors, correct_keys_are_never_dropped_while_values_change_slowly) {
  float scale = 1;
  for (int i = 0; i < 500; ++i, scale *= 0.98f) {
    fill(a_, scale);
    const Feedback what = see(Identity::key, a_, "a").what;
    EXPECT_EQ(what, i == 0 ? Feedback::fresh : Feedback::hit) << i;
  }
}

TEST_F(Tensors, swapped_tensors_of_different_scale_lose_their_residuals) {
  for (const float other : {100.f, 0.01f, 2.f, 0.5f}) {
    (void)after(10, Identity::address, a_, 1);
    (void)after(10, Identity::address, b_, other);
    fill(a_, other);
    EXPECT_EQ(see(Identity::address, a_).what, Feedback::profile) << other;
    fill(b_, 1);
    EXPECT_EQ(see(Identity::address, b_).what, Feedback::profile) << other;
    const auto dropped = residuals_.entries().size();
    EXPECT_EQ(dropped, 0u);
  }
}

TEST_F(Tensors, a_doubled_loss_scale_drops_and_then_goes_on) {
  (void)after(10, Identity::key, a_, 1);
  fill(a_, 1);
  (void)see(Identity::key, a_, "a");
  EXPECT_EQ(see(Identity::key, a_, "a").what, Feedback::hit);
  for (float& x : a_) x *= 2;
  EXPECT_EQ(see(Identity::key, a_, "a").what, Feedback::profile);
  EXPECT_EQ(see(Identity::key, a_, "a").what, Feedback::hit);
}

TEST_F(Tensors, another_shape_starts_afresh) {
  EXPECT_EQ(see(Identity::key, a_, "a").what, Feedback::fresh);
  EXPECT_EQ(see(Identity::key, a_, "a", 0, kN / 2).what, Feedback::shape);
  EXPECT_EQ(residuals_.find("a")->count, kN / 2);
  EXPECT_EQ(see(Identity::key, a_, "a", 0, kN / 2).what, Feedback::hit);
}

TEST_F(Tensors, memory_that_another_call_used_is_not_believed) {
  (void)after(10, Identity::address, a_, 1);
  EXPECT_EQ(see(Identity::address, a_, "", 0, kN / 2).what, Feedback::recorded) << "the same memory, shorter";
  fill(a_, 1);
  EXPECT_EQ(see(Identity::address, a_).what, Feedback::overlap);
}

TEST_F(Tensors, an_address_not_used_for_long_is_not_believed) {
  (void)after(10, Identity::address, a_, 1);
  for (int i = 0; i < 5000; ++i) (void)see(Identity::address, b_);
  fill(a_, 1);
  EXPECT_EQ(see(Identity::address, a_).what, Feedback::age);
}

TEST_F(Tensors, a_position_is_counted_from_each_step) {
  for (std::uint64_t step = 1; step < 5; ++step) {
    fill(a_, 1);
    fill(b_, 100);
    const Identities::Found first = see(Identity::sequence, a_, "", step),
                            second = see(Identity::sequence, b_, "", step);
    EXPECT_EQ(first.key.view(), "~sequence:0");
    EXPECT_EQ(second.key.view(), "~sequence:1");
    EXPECT_EQ(first.what, step == 1 ? Feedback::fresh : Feedback::hit);
    EXPECT_EQ(second.what, step == 1 ? Feedback::fresh : Feedback::hit);
  }
  fill(b_, 100);
  EXPECT_EQ(see(Identity::sequence, b_, "", 6).what, Feedback::profile) << "the first call was left out";
}

TEST_F(Tensors, what_is_not_finite_leaves_the_residual_as_it_is) {
  (void)see(Identity::key, a_, "a");
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    a_[17] = bad;
    EXPECT_EQ(see(Identity::key, a_, "a").what, Feedback::not_finite);
    EXPECT_TRUE(see(Identity::key, a_, "a").key.empty());
    EXPECT_NE(residuals_.find("a"), nullptr);
  }
  a_[17] = 1;
  EXPECT_EQ(see(Identity::key, a_, "a").what, Feedback::hit);
}

TEST_F(Tensors, residuals_stay_within_their_budget) {
  most_bytes_ = Held::total() + 2 * kN * sizeof(float);
  for (int i = 0; i < 3; ++i) (void)see(Identity::key, a_, std::to_string(i));
  EXPECT_EQ(residuals_.entries().size(), 2u);
  EXPECT_EQ(see(Identity::key, a_, "2").what, Feedback::budget);
  EXPECT_EQ(see(Identity::key, a_, "0").what, Feedback::hit);
}

TEST_F(Tensors, addresses_that_come_once_do_not_fill_the_memory) {
  std::vector<float> heap(20000 + kN, 1);
  for (std::size_t i = 0; i < 20000; i += 4)
    (void)identities_.identify(
        Identity::address, {reinterpret_cast<const std::byte*>(heap.data() + i), 2, Element::f32, "", 0, 0},
        residuals_, most_bytes_);
  EXPECT_EQ(residuals_.entries().size(), 0u);
}

TEST_F(Tensors, any_number_of_keys_is_kept) {
  for (int round = 0; round < 3; ++round)
    for (int k = 0; k < 3000; ++k)
      EXPECT_EQ(see(Identity::key, a_, std::to_string(k), 0, 64).what,
                round == 0 ? Feedback::fresh : Feedback::hit);
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
  EXPECT_EQ(see(Identity::key, a_, "here").what, Feedback::fresh);
  EXPECT_EQ(see_there().what, Feedback::budget);
  residuals_.clear();
  EXPECT_EQ(see_there().what, Feedback::fresh);
}

TEST_F(Tensors, a_call_that_stays_exact_has_its_position_too) {
  for (std::uint64_t step = 1; step < 5; ++step) {
    identities_.begin_call(step);  // exact
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

TEST_F(Tensors, a_residual_of_the_programs_own_is_welcome_and_one_in_flight_is_left_alone) {
  Residuals::Entry* const entry = *residuals_.acquire("mine", kN, Element::f32);
  reinterpret_cast<float*>(entry->buffer.data())[3] = 7;
  EXPECT_EQ(see(Identity::key, a_, "mine").what, Feedback::hit);
  EXPECT_EQ(reinterpret_cast<const float*>(residuals_.find("mine")->buffer.data())[3], 7);
  entry->users = 1;
  EXPECT_TRUE(see(Identity::key, a_, "mine").key.empty());
  EXPECT_TRUE(see(Identity::key, a_, "mine", 0, kN / 2).key.empty());
  EXPECT_NE(residuals_.find("mine"), nullptr);
}

Profile profile_of(const std::vector<float>& v) {
  return Profile::of(reinterpret_cast<const std::byte*>(v.data()), v.size(), Element::f32);
}

TEST(Profiles, tell_a_factor_of_two_apart_and_not_the_noise) {
  std::mt19937 random(2);
  std::student_t_distribution<float> heavy(3);
  std::normal_distribution<float> normal;
  const std::function<float()> kinds[]{
      [&] { return normal(random); },
      [&] { return heavy(random); },
      [&] { return random() % 100 == 0 ? normal(random) : 0.0f; },  // sparse
      [&] { return random() % 3 == 0 ? 1.0f : 0.0f; },
  };
  for (const std::size_t n : {16384u, 1000003u})
    for (const auto& draw : kinds) {
      std::vector<float> x(n);
      Profile before = profile_of(x);
      int drops = 0, unseen = 0;
      for (int step = 0; step < 200; ++step) {
        for (std::size_t i = 0; i < n; ++i)
          if (i % (n / 16) < 1100) x[i] = draw();  // the values that are looked at
        const Profile now = profile_of(x);
        for (float& v : x) v *= 3;
        unseen += now.distance(profile_of(x)) <= Profile::kTooFar;
        if (step > 0) drops += before.distance(now) > Profile::kTooFar;
        before = now;
      }
      const bool sparse = &draw == &kinds[2];  // a handful of values in a part: chance rules
      EXPECT_LE(drops, sparse ? 60 : 0) << n << ", kind " << &draw - kinds;
      EXPECT_LE(unseen, sparse ? 200 : 0) << n << ", kind " << &draw - kinds;
    }
}

TEST(Profiles, of_nothing_and_of_few_values_are_profiles) {
  for (std::size_t n = 0; n < 40; ++n) {
    const std::vector<float> ones(n, 1), zeros(n, 0);
    EXPECT_EQ(profile_of(ones).distance(profile_of(ones)), 0) << n;
    EXPECT_EQ(profile_of(zeros).distance(profile_of(zeros)), 0) << n;
    if (n >= Profile::kParts) {
      EXPECT_EQ(profile_of(ones).distance(profile_of(zeros)), Profile::kFarApart) << n;
    }
  }
  const std::vector<double> zeros(100, 0.0);
  EXPECT_TRUE(Profile::of(reinterpret_cast<const std::byte*>(zeros.data()), 100, Element::f64).finite());
}

TEST(Pcontrol, commands_are_obeyed_and_others_refused) {
  const Control before = control();
  EXPECT_FALSE(before.off);
  EXPECT_TRUE(obey(0, nullptr).ok());
  EXPECT_TRUE(control().off);
  EXPECT_TRUE(obey(1, nullptr).ok());
  EXPECT_FALSE(control().off);
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "exact").ok());
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "exact").ok());
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "end").ok());
  EXPECT_TRUE(control().off);
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "end").ok());
  EXPECT_FALSE(control().off);
  EXPECT_FALSE(obey(MPIQ_PCONTROL, "end").ok());
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "step").ok());
  EXPECT_EQ(control().step, before.step + 1);
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "flush").ok());
  EXPECT_EQ(control().flush, before.flush + 1);
  for (const char* const bad : {"", "stop", "key=", "key", "step "})
    EXPECT_FALSE(obey(MPIQ_PCONTROL, bad).ok()) << bad;
  EXPECT_FALSE(obey(MPIQ_PCONTROL, ("key=" + std::string(64, 'x')).c_str()).ok());
  EXPECT_TRUE(obey(7, nullptr).ok()) << "other tools' levels mean nothing here";
}

TEST(Pcontrol, a_key_is_of_one_thread_and_for_one_sum) {
  EXPECT_TRUE(take_key().empty());
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "key=layer 3").ok());
  std::thread([] { EXPECT_TRUE(take_key().empty()); }).join();
  EXPECT_EQ(take_key().view(), "layer 3");
  EXPECT_TRUE(take_key().empty());
  EXPECT_TRUE(obey(MPIQ_PCONTROL * 65536 + 12, nullptr).ok());
  EXPECT_EQ(take_key().view(), "12");
}

}  // namespace
}  // namespace mq::test
