// The memory rule of a method: read and printed over the table of rules, and errors that name the word and
// what is known.

#include <gtest/gtest.h>

#include <string>

#include "mpi_quant/policy/policy.hpp"

namespace mq {
namespace {

using kernels::MemoryRule;

Method method(const std::string& text) {
  const Result<Method> parsed = parse_method(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().text();
  return parsed.ok() ? *parsed : Method{};
}

void expect_error(const std::string& rules, const std::string& what) {
  const Status status = Policy::parse(rules).status();
  EXPECT_EQ(status.code(), Code::bad_policy) << rules;
  EXPECT_NE(status.text().find(what), std::string::npos) << status.text();
}

TEST(MemoryWords, every_rule_over_every_codec_and_plan_is_printed_to_text_that_parses_to_it) {
  for (const kernels::Codec& codec : kernels::codecs())
    for (const MemoryRule& rule : kernels::memory_rules())
      for (std::size_t i = 0; i <= 2 * rule.specs.size(); ++i) {
        Method m{&codec, kernels::preset_params(codec), &plans()[i % plans().size()], &rule,
                 kernels::preset_params(rule)};
        if (m.memory == &kernels::carry_rule()) m.memory = nullptr;
        if (i > 0)
          m.memory_params.value[(i - 1) / 2] =
              i % 2 == 0 ? rule.specs[(i - 1) / 2].min : rule.specs[(i - 1) / 2].max;
        if ((rule.terms(m.memory_params).needs_unbiased && !codec.unbiased(m.params)) ||
            (rule.keeps_estimates && !codec.contraction(m.params))) {
          EXPECT_FALSE(parse_method(to_string(m)).ok()) << to_string(m);
          continue;
        }
        EXPECT_EQ(method(to_string(m)), m) << to_string(m);
        const Result<Policy> policy = Policy::parse("64K-: " + to_string(m) + " seed=7");
        ASSERT_TRUE(policy.ok()) << policy.status().text();
        EXPECT_EQ(policy->rules()[0].method, m);
        EXPECT_EQ(*Policy::parse(policy->to_string()), *policy);
      }
}

TEST(MemoryWords, what_is_printed_is_what_differs_from_the_preset) {
  EXPECT_EQ(to_string(method("topk(k=0.02)/direct  memory = momentum ( m = 0.5 , clip = 2 )")),
            "topk(k=0.02)/direct memory=momentum(m=0.5,clip=2)");
  EXPECT_EQ(to_string(method("onebit memory=decay(beta=0.9)")), "onebit memory=decay");
  EXPECT_EQ(to_string(method("onebit memory=carry")), "onebit");
  EXPECT_EQ(method("onebit memory=carry"), method("onebit"))
      << "carry is the rule of a method that names none";
  EXPECT_EQ(to_string(method("onebit memory=momentum(mask=off)")), "onebit memory=momentum(mask=off)");
  EXPECT_TRUE(method("onebit memory=momentum").encodes_own());
  EXPECT_FALSE(method("onebit memory=decay").encodes_own());
}

TEST(MemoryWords, errors_name_the_word_its_place_and_what_is_known) {
  expect_error("64K-: onebit memory=forget",
               "unknown memory rule \"forget\" at character 21 (known: none, carry, decay, momentum");
  expect_error("64K-: onebit memory=", "expected a memory rule, found the end");
  expect_error("64K-: onebit memory", "expected '='");
  expect_error("64K-: onebit memory=decay(beta=2)", "bad value \"2\" at character 32 (beta: number, 0 to 1)");
  expect_error("64K-: onebit memory=decay(m=1)",
               "unknown parameter \"m\" at character 27 (known: beta: number, 0 to 1)");
  expect_error("64K-: onebit memory=none(m=1)", "none takes none");
  expect_error("64K-: onebit memory=3pc(v=2)",
               "\"3pc\" with these parameters needs an unbiased codec at character 21");
  expect_error("64K-: onebit seed=1 memory=decay", "memory= stands before other options");
  expect_error("64K-: onebit memory=decay memory=decay", "memory given twice");
  expect_error("64K-: mpi memory=decay", "mpi sums exactly, and takes no memory rule");
  EXPECT_FALSE(parse_method("mpi memory=decay").ok());
}

TEST(MemoryWords,
     rules_with_estimates_refuse_a_codec_that_is_no_contraction_and_say_the_condition_of_the_papers) {
  int refused = 0;
  for (const kernels::Codec& codec : kernels::codecs())
    for (const MemoryRule& rule : kernels::memory_rules())
      for (std::size_t i = 0; i <= 2 * codec.specs.size(); ++i) {
        Method m{&codec, kernels::preset_params(codec), nullptr, &rule, kernels::preset_params(rule)};
        if (i > 0) {
          const kernels::ParamSpec& spec = codec.specs[(i - 1) / 2];
          m.params.value[(i - 1) / 2] = i % 2 == 0 ? spec.min : spec.max;
        }
        if (m.memory == &kernels::carry_rule()) m.memory = nullptr;
        if (!codec.conflict(m.params).empty()) continue;
        const bool fits = !rule.keeps_estimates || codec.contraction(m.params);
        const Result<Method> parsed = parse_method(to_string(m));
        EXPECT_EQ(parsed.ok(), fits) << to_string(m);
        if (parsed.ok()) continue;
        ++refused;
        EXPECT_NE(parsed.status().text().find("needs a contraction: E|C(x) - x|^2 <= (1 - a) |x|^2"),
                  std::string::npos)
            << parsed.status().text();
      }
  EXPECT_GT(refused, 50);
  for (const char* const text : {"qsgd(norm=l2) memory=ef21", "qsgd(bits=2) memory=3pc(v=2)",
                                 "qsgd memory=3pc(v=2)", "terngrad memory=lazy", "threshold memory=3pc(v=5)",
                                 "bound(rel=0.1) memory=ef21", "adaptive(search=dryden2016) memory=ef21"})
    EXPECT_FALSE(parse_method(text).ok()) << text;
  for (const char* const text : {"qsgd(bits=8) memory=3pc(v=2)", "qsgd(block=256) memory=ef21",
                                 "int8(round=stochastic) memory=3pc(v=2)", "natural memory=3pc(v=2)"})
    EXPECT_TRUE(parse_method(text).ok()) << text;
}

TEST(MemoryWords, rules_that_change_sums_have_no_guard_and_rules_that_keep_arrays_have_feedback) {
  expect_error("64K-: topk memory=momentum guard=8", "guard= beside memory=momentum at character 7");
  expect_error("64K-: topk memory=decay feedback=off", "feedback=off beside memory=decay at character 7");
  for (const char* const text :
       {"64K-: topk memory=momentum feedback=address", "64K-: topk memory=decay guard=8 feedback=key",
        "64K-: topk memory=none feedback=off guard=8"})
    EXPECT_TRUE(Policy::parse(text).ok()) << text;
}

}  // namespace
}  // namespace mq
