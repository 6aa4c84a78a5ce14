// Advice for collectives other than an allreduce: what is sampled of each, errors that are the true ones, and
// rules that say which collective they are for.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant/advisor/advice.hpp"
#include "mpi_quant/advisor/predict.hpp"
#include "mpi_quant/policy/words.hpp"
#include "tests/advisor/samples.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/plan/promises.hpp"

namespace mq::test {
namespace {

using kernels::Element;
using Floats = std::vector<float>;

ClassId class_of(Collective collective, int ranks, int log2_bytes = 20, std::string comm = "world") {
  std::string op(name(collective));
  if (adds(collective)) op = collective == Collective::allreduce ? "MPI_SUM" : op + "(MPI_SUM)";
  return {std::move(comm), ranks, "MPI_FLOAT", std::move(op), log2_bytes};
}

std::vector<Floats> inputs_of(int ranks, std::size_t n) {
  std::vector<Floats> inputs;
  for (int r = 0; r < ranks; ++r)
    inputs.push_back(make_input<float>(Input::normal, n, seed() + static_cast<std::uint64_t>(r)));
  return inputs;
}

Floats part_of(const Floats& x, Range range) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(range.begin);
  return {begin, begin + static_cast<std::ptrdiff_t>(range.n)};
}

Floats plus(const Floats& a, const Floats& b) { return sum_of<float>({a, b}); }

// What the ranks sampled of one call: each with its vectors.
ClassSums seen(Collective collective, const std::vector<Vectors>& of_ranks) {
  ClassSums sums;
  const ClassId id = class_of(collective, static_cast<int>(of_ranks.size()));
  for (const Vectors& vectors : of_ranks) {
    Advisor advisor(kernels::best_isa());
    advisor.see(id, vectors);
    const Samples samples = advisor.samples();
    if (const auto found = samples.find(id); found != samples.end()) sums.add(found->second);
  }
  return sums;
}

void expect_error(const ClassSums& sums, std::string_view method, int summands, const Losses& losses,
                  double true_error) {
  const auto told = estimated_error(sums.methods[candidate(method)], summands, losses);
  ASSERT_TRUE(told) << method;
  EXPECT_NEAR(*told, true_error, 0.1 * true_error) << method;
}

TEST(AdvisedCollectives, what_is_gathered_has_the_error_of_all_parts_by_their_lengths) {
  // The long part loses much and has small values. The short one loses little and has great ones.
  const Floats normal = make_input<float>(Input::normal, 60'000, seed()), equal(6000, 1000.0F), nothing;
  const auto part = [](const Floats& x) {
    return Vectors{bytes_of(x), {0, x.size()}, nullptr, {}, Element::f32};
  };
  const ClassSums sums = seen(Collective::allgather, {part(normal), part(equal), part(nothing)});
  EXPECT_EQ(sums.ranks, 2) << "a rank without a part has nothing to sample";
  for (const std::string_view text : {"onebit", "int4", "bf16"}) {
    const Method& method = candidates()[candidate(text)].method;
    Floats exact = normal, decoded = coded(normal, method);
    const Floats second = coded(equal, method);
    exact.insert(exact.end(), equal.begin(), equal.end());
    decoded.insert(decoded.end(), second.begin(), second.end());
    expect_error(sums, text, 1, {1, 0}, relative_error(exact, decoded));
  }
}

TEST(AdvisedCollectives, a_broadcast_has_the_error_of_its_root_and_other_ranks_give_nothing) {
  const Floats root = make_input<float>(Input::laplace, 100'000, seed()), other(100'000, 7.0F);
  const ClassSums sums =
      seen(Collective::bcast, {{bytes_of(other), {}, nullptr, {}, Element::f32},
                               {bytes_of(root), {0, root.size()}, nullptr, {}, Element::f32}});
  EXPECT_EQ(sums.ranks, 1);
  EXPECT_EQ(sums.values.n, root.size());
  for (const std::string_view text : {"onebit", "int8"})
    expect_error(sums, text, 1, {1, 0},
                 relative_error(root, coded(root, candidates()[candidate(text)].method)));
}

TEST(AdvisedCollectives, a_part_of_a_sum_has_the_error_of_the_other_ranks_contributions) {
  constexpr std::size_t kCount = 90'000;
  const auto inputs = inputs_of(3, kCount);
  const Floats exact = sum_of(inputs);
  const Range parts[]{{0, 50'000}, {50'000, 0}, {50'000, 40'000}};  // rank 1 gets nothing
  std::vector<Vectors> of_ranks;
  for (std::size_t r = 0; r < 3; ++r)
    of_ranks.push_back(
        {bytes_of(inputs[r]), {0, kCount}, bytes_of(exact) + 4 * parts[r].begin, parts[r], Element::f32});
  const ClassSums sums = seen(Collective::reduce_scatter, of_ranks);
  EXPECT_EQ(sums.ranks, 3);
  EXPECT_EQ(sums.values.n, 3 * kCount) << "the whole inputs";
  const Losses losses = losses_of(*plan_of(Collective::reduce_scatter), {.size = 3});
  for (const std::string_view text : {"onebit", "int4"}) {
    const Method& method = candidates()[candidate(text)].method;
    // Each part by two of three ranks: as in a call with three equal parts.
    Floats decoded;
    for (std::size_t owner = 0; owner < 3; ++owner) {
      const Range part{owner * kCount / 3, kCount / 3};
      Floats sum = part_of(inputs[owner], part);
      for (std::size_t r = 0; r < 3; ++r)
        if (r != owner) sum = plus(sum, coded(part_of(inputs[r], part), method));
      decoded.insert(decoded.end(), sum.begin(), sum.end());
    }
    expect_error(sums, text, 3, losses, relative_error(exact, decoded));
  }
}

TEST(AdvisedCollectives, a_sum_at_the_root_has_the_error_of_its_plan) {
  const auto x = inputs_of(4, 100'000);
  const Floats exact = sum_of(x);
  std::vector<Vectors> of_ranks;
  for (const Floats& input : x)  // only rank 0 gets the sum
    of_ranks.push_back({bytes_of(input), {0, input.size()}, nullptr, {}, Element::f32});
  of_ranks[0].result = bytes_of(exact);
  of_ranks[0].result_range = {0, exact.size()};
  const ClassSums sums = seen(Collective::reduce, of_ranks);
  EXPECT_EQ(sums.ranks, 4);
  for (const std::string_view text : {"onebit", "bf16"}) {
    const Method& method = candidates()[candidate(text)].method;
    const auto q = [&](const Floats& v) { return coded(v, method); };
    const Floats by_tree = plus(plus(x[0], q(x[1])), q(plus(x[2], q(x[3]))));
    expect_error(sums, text, 4, losses_of(*plan_of(Collective::reduce, 100, 4), {.size = 4}),
                 relative_error(exact, by_tree));
    const Floats by_owners = plus(x[0], q(plus(x[1], plus(q(x[2]), q(x[3])))));
    expect_error(sums, text, 4, losses_of(*plan_of(Collective::reduce, 1 << 20, 4), {.size = 4}),
                 relative_error(exact, by_owners));
  }
}

TEST(AdvisedCollectives, the_first_windows_of_all_ranks_are_where_their_parts_of_the_sum_are) {
  constexpr std::size_t kCount = 8 * kWindowElements;
  for (const double first : {0.0, 0.25, 0.5, 0.75}) {
    const Window window = window_of(0, kCount, first);
    EXPECT_LE(window.begin, first * kCount);
    EXPECT_GE(window.begin + window.n, static_cast<std::size_t>(first * kCount));
  }
}

// Every loss is in the result. One of a sum of k ranks counts as k/P of one of the result, and what is not
// added has one contribution.
TEST(AdvisedCollectives, losses_are_those_that_the_proof_finds) {
  constexpr std::uint64_t kShort = 100, kLong = 1 << 30;
  for (const Collective collective :
       {Collective::reduce_scatter, Collective::allgather, Collective::bcast, Collective::reduce})
    for (const std::uint64_t bytes : {kShort, kLong})
      for (int size = 2; size <= 33; ++size) {
        const PlanRow& plan = *plan_of(collective, bytes, size);
        const bool is_scatter = collective == Collective::reduce_scatter;
        symbolic::Terms terms;
        const symbolic::Interpreted out =
            symbolic::interpret(make_all(plan, {0, size}), false, terms,
                                is_scatter ? symbolic::Written::own : symbolic::Written::all);
        ASSERT_EQ(out.error, "") << plan.name;
        const std::size_t chunks = is_scatter ? 1 : out.output[0].size();
        double contributions = 0, aggregate = 0;
        for (std::size_t c = 0; c < chunks; ++c) {
          symbolic::Terms::Linear total;
          terms.add(total, out.output[0][c], 1);
          terms.for_each_loss_in(total,
                                 [&](int inputs) { (inputs == 1 ? contributions : aggregate) += inputs; });
        }
        const double all = static_cast<double>(chunks) * (adds(collective) ? size : 1);
        const Losses losses = losses_of(plan, {0, size});
        EXPECT_NEAR(losses.contributions, contributions / all, 1e-9) << plan.name << ", " << size;
        EXPECT_NEAR(losses.aggregate, aggregate / all, 1e-9) << plan.name << ", " << size;
      }
}

// A program whose two ranks make calls of 1 MiB of normal floats by each collective, over 1 Gbit/s.
struct Scene {
  std::vector<Record> records{2};
  std::vector<Samples> samples{2};
  std::vector<Validation> validations;
  LinkModel link{40e-6, 5e-6, 8e-9, 0.05};

  explicit Scene(std::span<const Collective> collectives, double scale = 1) {
    constexpr std::size_t kCount = 1 << 18;
    for (const Collective collective : collectives) {
      const ClassId id = class_of(collective, 2);
      for (std::size_t r = 0; r < 2; ++r) {
        std::vector<double> x = make_input<double>(Input::normal, kCount, seed() + r);
        for (double& v : x) v *= scale;
        Vectors vectors{bytes_of(x), {0, kCount}, bytes_of(x), {0, kCount}, Element::f64};
        if (!adds(collective)) vectors.result_range = {};
        Advisor advisor(kernels::best_isa());
        advisor.see(id, vectors);
        samples[r].merge(advisor.samples());
        ClassSamples& own = samples[r].at(id);
        for (Trial& t : own.input) t.encode_s = t.decode_s = 1e-9 * static_cast<double>(t.elements);
        own.memory_s = 0;
        Numbers& numbers = records[r].classes[id];
        numbers.calls[static_cast<std::size_t>(Reason::rule)] = 100;
        numbers.bytes = std::uint64_t{100} << 20;
        numbers.seconds = 100 * 1.2 * predict_dense(collective, 0x1p20, 2, link);
      }
    }
  }
  Evidence evidence() const { return {records, samples, link, validations, {}, 0}; }
  std::string policy(bool with_feedback) const {
    return policy_of(advise(evidence()), kCareful, with_feedback);
  }
};

TEST(AdvisedCollectives, rules_are_for_the_collective_of_their_class_and_choose_for_no_other) {
  for (const Collective collective : kCollectives) {
    const Scene scene({&collective, 1});
    const std::string text = scene.policy(false);
    const auto policy = Policy::parse(text);
    ASSERT_TRUE(policy.ok() && !text.empty()) << name(collective) << ": " << text;
    for (const Collective other : kCollectives) {
      CallKey key{1 << 20, 2, Element::f64};
      key.collective = other;
      EXPECT_EQ(!policy->choose(key).exact(), other == collective) << text << " of " << name(other);
    }
    EXPECT_EQ(text.starts_with(std::string(name(collective)) + " 1M-2M@2 f64: "),
              collective != Collective::allreduce)
        << text;
  }
}

// Of one class; the fastest and the slowest rank take so many times what the model says of the exact call.
ClassAdvice advised(Collective collective, double fastest, double slowest,
                    const std::optional<Validation>& check = {}) {
  Scene scene({&collective, 1});
  const double model_s = predict_dense(collective, 0x1p20, 2, scene.link);
  scene.records[0].classes.begin()->second.seconds = 100 * model_s * fastest;
  scene.records[1].classes.begin()->second.seconds = 100 * model_s * slowest;
  if (check) scene.validations.push_back(*check);
  return advise(scene.evidence()).front();
}

TEST(AdvisedCollectives, with_a_root_neither_who_leaves_early_nor_who_waits_tells_the_time_of_a_call) {
  for (const Collective collective : kCollectives) {
    const bool rooted = has_root(collective);
    const double model_s = predict_dense(collective, 0x1p20, 2, Scene({&collective, 1}).link);
    const auto expect = [&](const ClassAdvice& advice, double times_the_model) {
      EXPECT_NEAR(advice.exact_s, model_s * times_the_model, 1e-9 * model_s) << name(collective);
      for (const MethodAdvice& m : advice.methods) {
        const bool doubted = times_the_model < 1 / kMostMiss;
        EXPECT_EQ(m.doubt == Doubt::model, doubted) << name(collective) << ", " << m.method;
        if (doubted) continue;
        EXPECT_NEAR(*m.speedup, advice.exact_s / *m.predicted_s, 1e-9) << m.method;
      }
    };
    expect(advised(collective, 0.05, 1.2), rooted ? 1 : 0.05);
    expect(advised(collective, 0.05, 1000), rooted ? 1 : 0.05);
    expect(advised(collective, 0.05, 0.8), rooted ? 0.8 : 0.05);
    expect(advised(collective, 1.2, 1000), 1.2);
    // A call of another size was tried. It took half of what the model says.
    const Validation tried{std::string(kExact), class_of(collective, 2, 24), 0x1p24, 1, 0.5};
    expect(advised(collective, 0.05, 1.2, tried), rooted ? 0.5 : 0.05);
  }
}

TEST(AdvisedCollectives, one_policy_serves_all_and_the_text_names_each) {
  const Scene scene(kCollectives);
  const std::string text = advice_text(scene.evidence());
  const auto classes = advise(scene.evidence());
  ASSERT_EQ(classes.size(), 5u);
  const auto policy = Policy::parse(scene.policy(false));
  ASSERT_TRUE(policy.ok());
  EXPECT_EQ(policy->rules().size(), 5u) << scene.policy(false);
  for (const Collective collective : kCollectives) {
    EXPECT_NE(text.find("MPI_FLOAT " + class_of(collective, 2).op + ", 1M-2M bytes: 100 calls"),
              std::string::npos)
        << text;
    EXPECT_NE(advice_json(scene.evidence()).find("\"collective\":\"" + std::string(name(collective)) + "\""),
              std::string::npos);
  }
}

TEST(AdvisedCollectives, what_nobody_adds_up_gets_no_feedback) {
  for (const Collective collective : kCollectives) {
    const Scene scene({&collective, 1});
    EXPECT_EQ(scene.policy(true).find("feedback") != std::string::npos, adds(collective))
        << scene.policy(true);
    EXPECT_EQ(scene.policy(true) == scene.policy(false), !adds(collective));
  }
}

TEST(AdvisedCollectives, auto_is_named_where_a_rule_may_say_it) {
  for (const Collective collective : kCollectives) {
    const Scene scene({&collective, 1});
    const std::string text = auto_policy_of(advise(scene.evidence()), kCareful);
    std::string rule = "1M-2M@2 f64: auto(error=0.01)";
    if (collective != Collective::allreduce) rule = std::string(name(collective)) + " " + rule;
    EXPECT_EQ(text, Policy::parse(rule).ok() ? rule : "");
    EXPECT_EQ(advice_text(scene.evidence()).find("let the library choose") != std::string::npos,
              !text.empty());
  }
}

TEST(AdvisedCollectives, values_beyond_the_range_of_all_methods_lead_to_no_policy) {
  for (const Collective collective : kCollectives) {
    const Scene scene({&collective, 1}, 1e300);
    EXPECT_EQ(scene.policy(true), "") << name(collective);
    EXPECT_NE(advice_text(scene.evidence()).find("keep MPI's calls"), std::string::npos);
  }
}

TEST(AdvisedCollectives, a_check_of_one_collective_says_nothing_of_another) {
  const Collective both[]{Collective::allgather, Collective::bcast};
  Scene scene(both);
  for (const Candidate& c : candidates())
    scene.validations.push_back({c.text, class_of(Collective::bcast, 2), 0x1p20, 1e-3, 1});
  EXPECT_TRUE(scene.policy(false).starts_with("allgather ")) << scene.policy(false);
  EXPECT_EQ(scene.policy(false).find("bcast"), std::string::npos);
  EXPECT_NE(advice_text(scene.evidence()).find("  int8, bcast 1M@2: predicted"), std::string::npos);
}

TEST(AdvisedCollectives, a_class_is_of_the_collective_that_its_operation_names) {
  for (const Collective collective : kCollectives)
    EXPECT_EQ(collective_of(class_of(collective, 2)), collective);
  ClassId other = class_of(Collective::allreduce, 2);
  for (const char* const op : {"MPI_MAX", "user op", ""}) {
    other.op = op;
    EXPECT_EQ(collective_of(other), Collective::allreduce);
  }
}

}  // namespace
}  // namespace mq::test
