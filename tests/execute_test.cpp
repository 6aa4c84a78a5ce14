// Every codec over every plan on 2 to 9 and some more ranks (threads): identical bits, conservation,
// determinism, wire bytes, non-finite values, damaged messages, disagreeing calls.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "mpi_quant/agree.hpp"
#include "mpi_quant/execute.hpp"
#include "tests/inputs.hpp"
#include "tests/loopback.hpp"
#include "tests/rows.hpp"

namespace mq::test {
namespace {

using kernels::Codec;

template <class T>
struct Outcome {
  std::vector<std::vector<T>> output, residual;  // by rank
  std::vector<Status> status;
  std::vector<Tally> tally;
  std::size_t leaked = 0;
};

struct Scene {
  const Codec* codec = nullptr;
  const PlanRow* plan = nullptr;
  int ranks = 2;
  bool feedback = true, in_place = false;
  std::uint64_t delay_seed = 0;
  Loopback::Tamper tamper = {};
  std::string describe(std::size_t n) const {
    return std::string(codec->name) + "/" + std::string(plan->name) + " ranks=" + std::to_string(ranks) +
           " n=" + std::to_string(n) + (feedback ? " feedback" : "") + (in_place ? " in place " : " ");
  }
};

// One allreduce of input[rank] with residual[rank].
template <class T>
Outcome<T> run(const Scene& scene, const std::vector<std::vector<T>>& input,
               std::vector<std::vector<T>> residual) {
  const auto ranks = static_cast<std::size_t>(scene.ranks);
  const std::size_t n = input[0].size();
  Outcome<T> out{std::vector<std::vector<T>>(ranks, std::vector<T>(n)), std::move(residual),
                 std::vector<Status>(ranks), std::vector<Tally>(ranks), 0};
  if (scene.in_place) out.output = input;
  Loopback net(scene.ranks, scene.delay_seed, scene.tamper);
  net.run([&](Loopback::Rank& comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    const Plan plan = scene.plan->make(comm.rank(), comm.size());
    Job job;
    job.plan = &plan;
    job.codec = scene.codec;
    job.element = Row<T>::kElement;
    job.ops = scene.codec->ops(job.element, kernels::best_isa());
    job.params = kernels::preset_params(*scene.codec);
    if (scene.codec->name == "onebit") job.params.value[0] = 64;  // many blocks in short vectors
    job.count = n;
    job.output = reinterpret_cast<std::byte*>(out.output[r].data());
    job.input = scene.in_place ? job.output : reinterpret_cast<const std::byte*>(input[r].data());
    job.residual = scene.feedback ? reinterpret_cast<std::byte*>(out.residual[r].data()) : nullptr;
    job.call = 7;
    std::vector<std::byte> scratch(Execution<Loopback::Rank>::scratch_bytes(job));
    Execution<Loopback::Rank> execution(comm, job, scratch.data());
    out.status[r] = execution.run(out.tally[r]);
  });
  out.leaked = net.leaked();
  return out;
}

template <class T>
std::vector<std::vector<T>> inputs(int ranks, std::size_t n, Input kind = Input::normal) {
  std::vector<std::vector<T>> x;
  for (int r = 0; r < ranks; ++r) x.push_back(make_input<T>(kind, n, seed() + static_cast<std::uint64_t>(r)));
  return x;
}

template <class T>
std::vector<std::vector<T>> zeros(int ranks, std::size_t n) {
  return std::vector<std::vector<T>>(static_cast<std::size_t>(ranks), std::vector<T>(n));
}

constexpr int kRanks[]{2, 3, 4, 5, 6, 7, 8, 9, 13};

// Every codec x plan x rank count x length around the interesting ones.
template <class F>
void for_each_scene(const F& property) {
  for (const Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const int ranks : kRanks)
        for (const std::size_t n : {0, 1, ranks - 1, ranks, ranks + 1, 64 * ranks + 5, 5000})
          property(Scene{&codec, &plan, ranks}, n);
}

template <class T>
void expect_sound(const Outcome<T>& got, const std::string& where) {
  for (std::size_t r = 0; r < got.output.size(); ++r) {
    ASSERT_TRUE(got.status[r].ok()) << where << "rank " << r << ": " << got.status[r].text();
    ASSERT_TRUE(same_bits(got.output[r], got.output[0])) << where << "rank " << r << " differs from rank 0";
  }
  ASSERT_EQ(got.leaked, 0u) << where << "requests or messages left";
}

// |sum over ranks of (x + e) - result - sum of e'| stays within rounding, element by element, in double.
template <class T>
void expect_conserved(const Outcome<T>& got, const std::vector<std::vector<T>>& x,
                      const std::vector<std::vector<T>>& e, const std::string& where) {
  constexpr double kUnit = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  for (std::size_t i = 0; i < x[0].size(); ++i) {
    double left = static_cast<double>(got.output[0][i]), right = 0, magnitude = 0;
    for (std::size_t r = 0; r < x.size(); ++r) {
      left += static_cast<double>(got.residual[r][i]);
      right += static_cast<double>(x[r][i]) + static_cast<double>(e[r][i]);
      magnitude += std::abs(static_cast<double>(x[r][i])) + std::abs(static_cast<double>(e[r][i])) +
                   std::abs(static_cast<double>(got.residual[r][i]));
    }
    magnitude += std::abs(static_cast<double>(got.output[0][i]));
    ASSERT_NEAR(left, right, 2 * kUnit * (static_cast<double>(x.size()) + 4) * magnitude)
        << where << "at " << i;
  }
}

template <class T>
void expect_sound_and_conserved(Scene scene, std::size_t n) {
  const auto x = inputs<T>(scene.ranks, n);
  const auto e = inputs<T>(scene.ranks, n, Input::laplace);
  const Outcome<T> got = run(scene, x, e);
  expect_sound(got, scene.describe(n));
  expect_conserved(got, x, e, scene.describe(n));
}

TEST(Execute, all_ranks_hold_the_same_bits_and_nothing_is_lost) {
  for_each_scene([](Scene scene, std::size_t n) {
    expect_sound_and_conserved<float>(scene, n);
    if (scene.ranks <= 5) expect_sound_and_conserved<double>(scene, n);
  });
}

TEST(Execute, in_place_and_out_of_place_agree_with_and_without_feedback) {
  for_each_scene([](Scene scene, std::size_t n) {
    const auto x = inputs<float>(scene.ranks, n);
    for (const bool feedback : {false, true}) {
      scene.feedback = feedback;
      scene.in_place = false;
      const Outcome<float> apart = run(scene, x, zeros<float>(scene.ranks, n));
      scene.in_place = true;
      const Outcome<float> in_place = run(scene, x, zeros<float>(scene.ranks, n));
      expect_sound(in_place, scene.describe(n));
      ASSERT_TRUE(same_bits(apart.output[0], in_place.output[0])) << scene.describe(n);
      for (std::size_t r = 0; r < x.size(); ++r)
        ASSERT_TRUE(same_bits(apart.residual[r], in_place.residual[r])) << scene.describe(n);
    }
  });
}

TEST(Execute, lossless_codecs_give_the_sum_within_the_summation_bound) {
  for_each_scene([](Scene scene, std::size_t n) {
    if (!scene.codec->lossless) return;
    const auto x = inputs<float>(scene.ranks, n, Input::mixed_scales);
    const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
    const double m = (scene.ranks - 1) * 0x1p-24, gamma = m / (1 - m);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0, magnitude = 0;
      for (const auto& v : x) {
        sum += static_cast<double>(v[i]);
        magnitude += std::abs(static_cast<double>(v[i]));
      }
      ASSERT_LE(std::abs(static_cast<double>(got.output[0][i]) - sum), gamma * magnitude)
          << scene.describe(n) << "at " << i;
    }
  });
}

TEST(Execute, results_do_not_depend_on_the_order_of_arrival) {
  for_each_scene([](Scene scene, std::size_t n) {
    if (n < 64) return;
    const auto x = inputs<float>(scene.ranks, n);
    const Outcome<float> prompt = run(scene, x, zeros<float>(scene.ranks, n));
    for (const std::uint64_t delay_seed : {1, 2, 3}) {
      scene.delay_seed = delay_seed;
      const Outcome<float> late = run(scene, x, zeros<float>(scene.ranks, n));
      expect_sound(late, scene.describe(n));
      ASSERT_TRUE(same_bits(prompt.output[0], late.output[0])) << scene.describe(n);
    }
  });
}

TEST(Execute, many_segments_in_flight_with_delays_are_reduced_once_each) {
  for (const Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const int ranks : {2, 3}) {
        const std::size_t n = 6 * kChunkBytes / 4 * static_cast<std::size_t>(ranks) + 1234;
        Scene scene{&codec, &plan, ranks};
        scene.delay_seed = 5;
        const auto x = inputs<float>(ranks, n);
        const Outcome<float> got = run(scene, x, zeros<float>(ranks, n));
        expect_sound(got, scene.describe(n));
        expect_conserved(got, x, zeros<float>(ranks, n), scene.describe(n));
      }
}

TEST(Execute, nonfinite_elements_reach_every_rank_and_spoil_no_other) {
  for_each_scene([](Scene scene, std::size_t n) {
    if (n == 0) return;
    auto x = inputs<float>(scene.ranks, n);
    std::vector<bool> bad(n);
    for (std::size_t r = 0; r < x.size(); r += 2) {
      plant_nonfinite(x[r], seed() + r);
      for (std::size_t i = 0; i < n; ++i)
        if (!std::isfinite(x[r][i])) bad[i] = true;
    }
    const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
    expect_sound(got, scene.describe(n));
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(!std::isfinite(got.output[0][i]), bad[i]) << scene.describe(n) << "at " << i;
      for (const auto& e : got.residual) ASSERT_TRUE(std::isfinite(e[i])) << scene.describe(n) << "at " << i;
    }
  });
}

TEST(Execute, sends_no_more_than_the_theory_says_plus_headers) {
  for_each_scene([](Scene scene, std::size_t n) {
    const Outcome<float> got = run(scene, inputs<float>(scene.ranks, n), zeros<float>(scene.ranks, n));
    kernels::Params params = kernels::preset_params(*scene.codec);
    if (scene.codec->name == "onebit") params.value[0] = 64;
    const auto p = static_cast<double>(scene.ranks);
    const double wire = static_cast<double>(scene.codec->wire_bound(n, kernels::Element::f32, params));
    std::uint64_t sent = 0, messages = 0, received = 0;
    for (const Tally& t : got.tally)
      sent += t.sent_bytes, messages += t.messages_sent, received += t.received_bytes;
    EXPECT_EQ(sent, received) << scene.describe(n);
    const double block_bytes = 64 * 4 + 16,
                 payload = static_cast<double>(sent - messages * sizeof(FrameHeader));
    // All ranks together; a chunk boundary costs at most one block header more.
    double theory = -1;
    if (scene.plan->name == "direct") theory = 2 * (p - 1) * wire;
    if (scene.plan->name == "allgather") theory = p * (p - 1) * wire;
    if (scene.plan->name == "recursive_doubling") {
      const double core = std::exp2(std::floor(std::log2(p)));
      theory = (core * std::log2(core) + 3 * (p - core)) * wire;  // an extra rank sends one wire and gets two
    }
    ASSERT_GE(theory, 0) << "no theory for plan " << scene.plan->name;
    EXPECT_LE(payload, theory + static_cast<double>(messages) * block_bytes) << scene.describe(n);
    // A code whose length depends on the data sends less than its bound of a vector of zeros.
    const std::vector<float> none(n);
    std::vector<std::byte> of_none(static_cast<std::size_t>(wire));
    const kernels::CodecOps& ops = *scene.codec->ops(kernels::Element::f32, kernels::Isa::scalar);
    const bool fixed =
        ops.encode({none.data(), nullptr, kernels::Feedback::none, n, params, of_none.data()}).bytes ==
        of_none.size();
    if (fixed) {
      EXPECT_GE(payload, theory) << scene.describe(n);
    }
  });
}

TEST(Execute, damaged_messages_are_errors_and_never_a_hang) {
  for (const Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const int ranks : {2, 3, 4, 7})
        for (int damage = 0; damage < 5; ++damage) {
          Scene scene{&codec, &plan, ranks};
          std::atomic<int> messages = 0;
          std::atomic<int> victim = -1;
          scene.tamper = [&](int, int to, int, Loopback::Message& m) {
            if (messages++ != 1) return;
            victim = to;
            if (damage == 0) m.clear();
            if (damage == 1) m.resize(m.size() - 1);
            if (damage == 2) m[0] ^= std::byte{1};  // magic
            if (damage == 3) m.resize(1 << 20);     // longer than any bound here
            if (damage == 4) m[8] ^= std::byte{1};  // hash of another call
          };
          const Outcome<float> got = run(scene, inputs<float>(ranks, 999), zeros<float>(ranks, 999));
          const std::string where = scene.describe(999) + "damage " + std::to_string(damage);
          ASSERT_GE(victim, 0) << where;
          const Status& status = got.status[static_cast<std::size_t>(victim)];
          EXPECT_EQ(status.code(), Code::bad_frame) << where << ": " << status.text();
          EXPECT_FALSE(status.text().empty());
          EXPECT_EQ(got.leaked, 0u) << where;
        }
}

std::vector<Status> agree_all(const std::vector<Signature>& signatures, const Loopback::Tamper& tamper = {}) {
  Loopback net(static_cast<int>(signatures.size()), 0, tamper);
  std::vector<Status> status(signatures.size());
  net.run([&](Loopback::Rank& comm) {
    std::uint64_t messages = 0;
    HelloBuffers buffers;
    const auto r = static_cast<std::size_t>(comm.rank());
    status[r] = agree(comm, signatures[r], buffers, messages);
  });
  EXPECT_EQ(net.leaked(), 0u);
  return status;
}

TEST(Agree, equal_calls_pass_on_any_number_of_ranks) {
  for (int p = 1; p <= 33; ++p)
    for (const Status& s : agree_all(std::vector<Signature>(static_cast<std::size_t>(p))))
      EXPECT_TRUE(s.ok()) << s.text();
}

TEST(Agree, a_difference_in_any_field_on_any_rank_is_the_same_error_everywhere) {
  for (const std::size_t p : {2, 3, 5, 8})
    for (std::size_t odd = 0; odd < p; ++odd)
      for (int field = 0; field < 8; ++field) {
        Signature base{1000, 5, 3, 3, 1, 0, 0, 0, 0};
        std::vector<Signature> all(p, base);
        Signature& s = all[odd];
        if (field == 0) s.count = 1001;
        if (field == 1) s.params_hash = 6;
        if (field == 2) s.sequence = 4;
        if (field == 3) s.codec = 2;
        if (field == 4) s.plan = 2;
        if (field == 5) s.element = 1;
        if (field == 6) s.key = 1;
        if (field == 7) s.trouble = static_cast<std::uint16_t>(Code::no_memory);
        const std::vector<Status> status = agree_all(all);
        for (const Status& got : status) {
          EXPECT_EQ(got.code(), field == 7 ? Code::peer_failed : Code::mismatch) << got.text();
          EXPECT_EQ(got.text(), status[0].text());
          EXPECT_NE(got.text().find("rank " + std::to_string(odd == 0 ? 1 : odd)), std::string::npos)
              << got.text();
          EXPECT_NE(got.text().find("rank 0"), std::string::npos) << got.text();
        }
      }
}

TEST(Agree, a_foreign_message_is_an_error_on_all_ranks) {
  for (const std::size_t p : {2, 3, 5, 8})
    for (const bool truncate : {false, true}) {
      std::atomic<int> messages = 0;
      const auto status = agree_all(std::vector<Signature>(p), [&](int, int, int, Loopback::Message& m) {
        if (messages++ != 0) return;
        if (truncate)
          m.resize(10);
        else
          m[0] ^= std::byte{0xff};
      });
      int failed = 0;
      for (const Status& s : status) failed += !s.ok();
      // The first round reaches everyone; a message of the last round is seen by its receiver alone.
      EXPECT_GE(failed, 1) << p;
    }
}

}  // namespace
}  // namespace mq::test
