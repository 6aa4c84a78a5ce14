// What the advice says: the numbers of a scene whose answers are known, rules that parse and mean the classes
// they were made for, and words where something is missing.

#include "mpi_quant/advisor/advice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/advisor/samples.hpp"
#include "tests/json.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {
namespace {

using kernels::Element;

constexpr std::size_t kWould = static_cast<std::size_t>(Reason::would_be_compressed);

// A program whose ranks make calls of 4 MiB of normal floats.
struct Scene {
  std::vector<Record> records;
  std::vector<Samples> samples;
  std::vector<Validation> validations;
  std::optional<LinkModel> link = LinkModel{40e-6, 5e-6, 8e-9, 0.05};  // 1 Gbit/s
  Cores cores;
  double error = 0;  // that the user asks for

  explicit Scene(int ranks) : records(static_cast<std::size_t>(ranks)), samples(records.size()) {}

  void add(const ClassId& id, Input kind, double scale = 1) {
    constexpr std::size_t count = kSanitized ? 1 << 18 : 1 << 20;
    std::vector<float> sum(count);
    std::vector<std::vector<float>> inputs;
    for (std::size_t r = 0; r < records.size(); ++r) {
      inputs.push_back(make_input<float>(kind, count, seed() + r));
      for (float& v : inputs.back()) v = static_cast<float>(scale * static_cast<double>(v));
      for (std::size_t i = 0; i < count; ++i) sum[i] += inputs.back()[i];
    }
    for (std::size_t r = 0; r < records.size(); ++r) {
      Advisor advisor(kernels::best_isa());
      advisor.see(id, vectors_of(inputs[r], sum));
      samples[r].merge(advisor.samples());
      settle_times(samples[r].at(id));
      record(r, id);
    }
  }
  // The machine may be busy: 4 GB/s each way, whatever was measured.
  static void settle_times(ClassSamples& own) {
    own.memory_s = 0;
    for (Trial& t : own.input) {
      t.encode_s = t.decode_s = 1e-9 * static_cast<double>(t.elements);
      t.measure_s = 0;
    }
  }
  void record(std::size_t r, const ClassId& id) {
    Numbers& numbers = records[r].classes[id];
    numbers.calls[kWould] = 100;
    numbers.bytes = std::uint64_t{100} << id.log2_bytes;
    // Of 4 MiB 80 ms on rank 0, 10 ms more on each rank after it.
    numbers.seconds = static_cast<double>(numbers.bytes) / 0x1p22 * (0.08 + 0.01 * static_cast<double>(r));
  }
  // The fastest rank's calls take so many times what the model of the link says.
  void take(const ClassId& id, double times_the_model) {
    const double model_s = *advise(evidence()).front().dense_s;
    for (std::size_t r = 0; r < records.size(); ++r)
      records[r].classes.at(id).seconds = 100 * model_s * times_the_model;
  }
  void check(std::string method, double predicted_s, double measured_s) {
    validations.push_back({std::move(method), samples[0].begin()->first, 0x1p22, predicted_s, measured_s});
  }
  Evidence evidence() const { return {records, samples, link, validations, cores, error}; }
  std::string policy(bool with_feedback) const {
    return policy_of(advise(evidence()), error > 0 ? error : kCareful, with_feedback);
  }
};

ClassId grads(int ranks, std::string comm = "grads", int log2_bytes = 22) {
  return {std::move(comm), ranks, "MPI_FLOAT", "MPI_SUM", log2_bytes};
}

bool says(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

TEST(Advice, times_are_those_of_the_ranks_and_speedups_are_over_the_fastest) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  const auto classes = advise(scene.evidence());
  ASSERT_EQ(classes.size(), 1u);
  const ClassAdvice& c = classes[0];
  EXPECT_EQ(c.calls, 100u);
  EXPECT_DOUBLE_EQ(c.bytes, 0x1p22);
  EXPECT_NEAR(c.min_s, 0.08, 1e-12);
  EXPECT_NEAR(c.mean_s, 0.095, 1e-12);
  EXPECT_NEAR(c.max_s, 0.11, 1e-12);
  ASSERT_EQ(c.methods.size(), candidates().size());
  for (const MethodAdvice& m : c.methods) {
    ASSERT_TRUE(m.predicted_s && m.speedup && m.error);
    EXPECT_DOUBLE_EQ(*m.speedup, c.min_s / *m.predicted_s);
  }
  const auto of = [&](std::string_view method) -> const MethodAdvice& {
    return *std::find_if(c.methods.begin(), c.methods.end(),
                         [&](const MethodAdvice& m) { return m.method == method; });
  };
  EXPECT_NEAR(of("bf16").bytes_per_element, 2, 0.01);
  EXPECT_NEAR(of("int8").bytes_per_element, 1.016, 0.01);
  EXPECT_NEAR(of("onebit").bytes_per_element, 0.129, 0.01);
  EXPECT_LT(*of("bf16").error, *of("int8").error);
  EXPECT_LT(*of("int8").error, 0.02);
  EXPECT_GT(*of("onebit").error, 0.5);
  EXPECT_GT(*of("onebit").speedup, *of("int8").speedup) << "bytes decide on a slow link";
  EXPECT_GT(*of("int8").speedup, *of("bf16").speedup);
}

TEST(Advice, rules_parse_and_choose_what_they_were_made_for) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  scene.add(grads(4, "odd: name;*", 22), Input::laplace);
  scene.add(grads(4, "", 23), Input::normal);
  const auto classes = advise(scene.evidence());
  for (const bool careful : {false, true}) {
    const std::string text = policy_of(classes, kCareful, !careful);
    const auto policy = Policy::parse(text);
    ASSERT_TRUE(policy.ok()) << text << ": " << policy.status().text();
    for (const ClassAdvice& c : classes) {
      const std::uint64_t bytes = std::uint64_t{1} << c.id.log2_bytes;
      const Method chosen = policy->choose({bytes, 4, Element::f32, 0, c.id.comm});
      ASSERT_FALSE(chosen.exact()) << text;
      const std::string name(chosen.codec->name);
      EXPECT_EQ(name == "bf16" || name == "int8", careful) << text;
      const Rule* const rule = policy->rule_for({bytes, 4, Element::f32, 0, c.id.comm});
      EXPECT_EQ(rule->safeguards.feedback == Identity::address, !careful) << text;
      EXPECT_TRUE(policy->choose({bytes, 5, Element::f32, 0, c.id.comm}).exact()) << text;
      EXPECT_TRUE(policy->choose({bytes, 4, Element::f64, 0, c.id.comm}).exact()) << text;
    }
  }
}

TEST(Advice, sizes_that_follow_each_other_share_a_rule) {
  Scene scene(2);
  for (const int log2_bytes : {20, 21, 23}) scene.add(grads(2, "world", log2_bytes), Input::normal);
  EXPECT_EQ(scene.policy(false), "1M-4M@2 f32: int8; 8M-16M@2 f32: int8");
  const std::string automatic = "1M-4M@2 f32: auto(error=0.01); 8M-16M@2 f32: auto(error=0.01)";
  EXPECT_EQ(auto_policy_of(advise(scene.evidence()), kCareful), automatic);
  EXPECT_TRUE(Policy::parse(automatic).ok());
  EXPECT_TRUE(says(advice_text(scene.evidence()), "MPIQ_POLICY='" + automatic + "'"));
}

TEST(Advice, a_link_that_costs_nothing_leads_to_no_policy) {
  Scene scene(2);
  scene.add(grads(2), Input::normal);
  for (Record& r : scene.records) r.classes[grads(2)].seconds = 1e-6;
  EXPECT_EQ(scene.policy(true), "");
  EXPECT_TRUE(says(advice_text(scene.evidence()), "Policy to try: none"));
}

TEST(Advice, a_method_with_a_large_error_comes_with_feedback_and_with_what_it_is_good_for) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  EXPECT_EQ(scene.policy(false), "4M-8M@4 f32: int8");
  EXPECT_EQ(scene.policy(true), "4M-8M@4 f32: onebit feedback=address");
  const std::string text = advice_text(scene.evidence());
  EXPECT_TRUE(says(text, "within an estimated error of 1.0 %):\n  MPIQ_POLICY='4M-8M@4 f32: int8'\n"))
      << text;
  EXPECT_TRUE(says(text,
                   "For loops that sum the same buffers again and again, such as training, and for nothing "
                   "else:\n  MPIQ_POLICY='4M-8M@4 f32: onebit feedback=address'\n"))
      << text;
  EXPECT_TRUE(says(text, "may need a lower learning rate")) << text;
}

TEST(Advice, counts_get_no_method_with_a_large_error) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  for (Samples& of_rank : scene.samples) of_rank.at(grads(4)).values.whole = 1 << 17;  // of 2^18
  EXPECT_EQ(scene.policy(true), scene.policy(false));
}

TEST(Advice, no_policy_is_beyond_the_error_that_the_user_asks_for) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  scene.error = 1e-6;
  std::string text = advice_text(scene.evidence());
  EXPECT_TRUE(says(
      text, "Policy to try: none; no method has an error within 1.0e-06 (--error).\n  The smallest is 0."))
      << text;
  EXPECT_FALSE(says(text, "MPIQ_POLICY")) << text;
  scene.error = 0.005;
  text = advice_text(scene.evidence());
  EXPECT_TRUE(says(text, "MPIQ_POLICY='4M-8M@4 f32: bf16'")) << text;
  EXPECT_FALSE(says(text, "feedback=address")) << text;
  const auto json = JsonReader::read(suggestion_json(scene.evidence()));
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["error"].number, 0.005);
  EXPECT_EQ((*json)["policy"].string, "4M-8M@4 f32: bf16");
  EXPECT_EQ((*json)["with_feedback"].string, "");
}

TEST(Advice, nothing_is_promised_where_exact_sums_take_another_time_than_the_link) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  for (const double times : {2.9, 3.1, 70.0, 0.3}) {
    scene.take(grads(4), times);
    const std::string text = advice_text(scene.evidence());
    const bool believed = times > 2 && times < 3;
    EXPECT_EQ(!scene.policy(true).empty(), believed) << text;
    EXPECT_EQ(says(text, "MPIQ_POLICY="), believed) << text;
    EXPECT_EQ(says(text, ": the model promises no speed-up"), !believed) << text;
    EXPECT_EQ(says(text, "off by more than a factor of 3.00"), !believed) << text;
    EXPECT_EQ(says(advice_json(scene.evidence()), "\"speedup\":null,\"doubt\":\"model\""), !believed);
  }
}

TEST(Advice, a_method_whose_own_check_misses_is_not_suggested) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  scene.check("onebit", 0.6364e-3, 64.0e-3);
  std::string text = advice_text(scene.evidence());
  EXPECT_TRUE(says(text, "predicted 0.6364 ms, measured 64.0 ms, ratio 100.57: too far off, not suggested"))
      << text;
  EXPECT_FALSE(says(text, "MPIQ_POLICY='4M-8M@4 f32: onebit")) << text;
  EXPECT_TRUE(says(text, "MPIQ_POLICY='4M-8M@4 f32: int8'")) << text;
  for (const Candidate& c : candidates()) scene.check(std::string(c.text), 4e-3, 1e-3);
  text = advice_text(scene.evidence());
  EXPECT_FALSE(says(text, "MPIQ_POLICY=")) << text;
}

TEST(Advice, a_method_that_is_no_faster_than_the_exact_sum_when_tried_is_not_suggested) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  scene.check("mpi", 0.050, 0.060);
  scene.check("bf16", 0.025, 0.058);
  scene.check("int8", 0.013, 0.058);
  scene.check("onebit", 0.010, 0.012);
  EXPECT_EQ(scene.policy(false), "");
  EXPECT_EQ(scene.policy(true), "4M-8M@4 f32: onebit feedback=address");
  const std::string text = advice_text(scene.evidence());
  EXPECT_TRUE(says(text, "ratio 2.32: no faster than the exact sum, not suggested")) << text;
  EXPECT_TRUE(says(text, "in the check above no method with an error within 1.0 % was faster")) << text;
  scene.validations.clear();
  scene.check("mpi", 0.001, 0.060);
  EXPECT_EQ(scene.policy(true), "") << "the model of the exact sum misses";
}

TEST(Advice, what_was_tried_decides_where_the_model_is_off) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  scene.take(grads(4), 70);  // the model is off for the exact sum
  EXPECT_EQ(scene.policy(true), "");
  scene.check("mpi", 0.002, 0.0997);
  scene.check("onebit", 0.001, 0.0093);
  EXPECT_EQ(scene.policy(true), "4M-8M@4 f32: onebit feedback=address");
  std::string text = advice_text(scene.evidence());
  EXPECT_TRUE(says(text, "measured 9.30 ms, ratio 9.30: 10.72 times as fast as the exact sum")) << text;
  EXPECT_TRUE(says(text, "MPIQ_POLICY='4M-8M@4 f32: onebit feedback=address'")) << text;
  EXPECT_TRUE(says(advice_json(scene.evidence()), "\"measured_s\":0.0093,\"speedup\":10.72")) << text;
  // A call that is too fast for a link which the model knows is a burst.
  Scene burst(4);
  burst.add(grads(4), Input::normal);
  burst.check("mpi", 0.133, 0.166);
  burst.check("bf16", 0.0711, 0.0921);
  burst.check("threshold(quantile=0.99)", 0.0101, 0.00027);
  text = advice_text(burst.evidence());
  EXPECT_TRUE(says(text, "ratio 0.03: too far off, not suggested")) << text;
  EXPECT_EQ(burst.policy(true), "4M-8M@4 f32: bf16");
  // Those that were not tried are still the model's.
  EXPECT_EQ(scene.policy(false), "");
  scene.check("bf16", 0.0001, 0.05);
  EXPECT_EQ(scene.policy(false), "4M-8M@4 f32: bf16");
  scene.check("int8", 0.0001, 0.098);
  EXPECT_EQ(scene.policy(false), "4M-8M@4 f32: bf16");
  text = advice_text(scene.evidence());
  EXPECT_TRUE(says(text, "int8, 4M@4: predicted 0.100")) << text;
  EXPECT_TRUE(says(text, "no faster than the exact sum, not suggested")) << text;
}

TEST(Advice, of_a_busy_machine_says_so) {
  Scene scene(4);
  scene.add(grads(4), Input::normal);
  scene.cores = {0.05, 4, 4};
  EXPECT_FALSE(says(advice_text(scene.evidence()), "busy"));
  scene.cores = {0.43, 4, 4};
  EXPECT_TRUE(says(advice_text(scene.evidence()),
                   "This machine was busy: a rank waited 43 % of the run for a core."));
  scene.cores = {0, 8, 2};
  EXPECT_TRUE(
      says(advice_text(scene.evidence()), "This machine was busy: 8 ranks ran on a node of 2 cores."));
  scene.cores = {};
  scene.link = LinkModel{4e-3, 0, 8e-9, 0.05};
  EXPECT_TRUE(
      says(advice_text(scene.evidence()), "This machine was busy: a message takes 4.00 ms at least."));
}

TEST(Advice, names_what_a_reader_must_know) {
  Scene scene(4);
  scene.add(grads(4), Input::signs, 4);  // +1 and -1
  scene.check("bf16", 0.02, 0.03);
  const std::string text = advice_text(scene.evidence());
  EXPECT_TRUE(says(text, "grads, 4 ranks, MPI_FLOAT MPI_SUM, 4M-8M bytes: 100 calls")) << text;
  EXPECT_TRUE(says(text, "cannot shorten the wait for late ranks: up to 30.0 ms")) << text;
  EXPECT_TRUE(says(text, "whole numbers: counts or indices?")) << text;
  EXPECT_TRUE(says(text, "the rounding errors of\nranks are taken as uncorrelated")) << text;
  EXPECT_TRUE(says(text, "misses its own measurements by 5.0 %")) << text;
  EXPECT_TRUE(says(text, "bf16, 4M@4: predicted 20.0 ms, measured 30.0 ms, ratio 1.50")) << text;
  EXPECT_TRUE(says(text, "MPIQ_POLICY='4M-8M@4 f32: ")) << text;
}

TEST(Advice, what_is_missing_is_said_to_be_missing) {
  EXPECT_TRUE(says(advice_text({}), "Advice: none"));
  Scene scene(2);
  scene.record(0, grads(2));
  EXPECT_TRUE(says(advice_text(scene.evidence()), "Nothing was sampled"));
  EXPECT_TRUE(says(advice_text(scene.evidence()), "No call was sampled"));
  scene.add(grads(2), Input::normal);
  scene.link.reset();
  EXPECT_TRUE(says(advice_text(scene.evidence()), "The link was not measured"));
  EXPECT_EQ(scene.policy(true), "");
  scene.records.assign(2, {});
  EXPECT_FALSE(says(advice_text(scene.evidence()), "nan")) << advice_text(scene.evidence());
}

TEST(Advice, small_calls_and_calls_of_one_rank_are_not_spoken_of) {
  Scene scene(2);
  scene.record(0, grads(2, "world", 15));
  scene.record(0, grads(1, "world", 22));
  EXPECT_TRUE(advise(scene.evidence()).empty());
}

TEST(Advice, as_json_is_balanced_and_quoted) {
  Scene scene(2);
  scene.add(grads(2, "a \"name\"\n"), Input::normal);
  const std::string json = advice_json(scene.evidence());
  EXPECT_TRUE(says(json, "\"comm\":\"a \\\"name\\\"\\u000a\"")) << json;
  EXPECT_TRUE(says(json, "\"method\":\"threshold(quantile=0.99)\"")) << json;
  EXPECT_EQ(json.front(), '[');
  EXPECT_EQ(json.back(), ']');
  for (const char* const pair : {"[]", "{}"})
    EXPECT_EQ(std::count(json.begin(), json.end(), pair[0]), std::count(json.begin(), json.end(), pair[1]));
  EXPECT_EQ(advice_json({}), "[]");
}

}  // namespace
}  // namespace mq::test
