// Schemes and auto in the control language: read and printed over their table, and errors that name the word.

#include <gtest/gtest.h>

#include <string>

#include "mpi_quant/policy/policy.hpp"

namespace mq {
namespace {

void expect_error(const std::string& rules, const std::string& what) {
  const Status status = Policy::parse(rules).status();
  EXPECT_EQ(status.code(), Code::bad_policy) << rules;
  EXPECT_NE(status.text().find(what), std::string::npos) << status.text();
}

TEST(AutoWords, what_may_follow_auto_is_printed_as_it_is_read) {
  const auto limit_of = [](const std::string& text) {
    const Result<Policy> policy = Policy::parse("64K-: " + text);
    EXPECT_TRUE(policy.ok()) << policy.status().text();
    if (!policy.ok()) return Automatic{};
    EXPECT_EQ(*Policy::parse(policy->to_string()), *policy) << policy->to_string();
    const Method& method = policy->rules()[0].method;
    EXPECT_TRUE(method.chooses());
    EXPECT_FALSE(method.exact());
    EXPECT_EQ(to_string(method), text);
    return method.automatic;
  };
  EXPECT_EQ(limit_of("auto"), (Automatic{Automatic::Kind::relative, 0}));
  EXPECT_EQ(limit_of("auto(error=0.01)"), (Automatic{Automatic::Kind::relative, 0.01}));
  EXPECT_EQ(limit_of("auto(error=abs:1e-06)"), (Automatic{Automatic::Kind::absolute, 1e-6}));
  EXPECT_EQ(limit_of("auto(error=feedback)"), (Automatic{Automatic::Kind::feedback, kUsualDebt}));
  EXPECT_EQ(limit_of("auto(error=feedback:9)"), (Automatic{Automatic::Kind::feedback, 9}));
  EXPECT_EQ(to_string(*parse_method(" auto ( error = 0 ) ")), "auto");
  for (const Identity identity : {Identity::key, Identity::address, Identity::sequence}) {
    const bool is_usual = identity == Identity::address;  // it would do nothing in programs without keys
    const std::string rule =
        "64K-: auto(error=feedback)" + (is_usual ? "" : " feedback=" + std::string(name(identity)));
    const Result<Policy> policy = Policy::parse(rule);
    ASSERT_TRUE(policy.ok()) << rule;
    EXPECT_EQ(policy->rules()[0].safeguards.feedback, identity) << rule;
    EXPECT_EQ(policy->to_string(), rule);
  }
}

TEST(AutoWords, errors_name_what_is_wrong) {
  for (const char* const value : {"", "x", "-1", "nan", "inf", "abs:", "abs:0", "abs:1e-30", "abs:-1",
                                  "feedback:", "feedback:0", "feedback:x", "feedbackx", "1e300", "0.1x"})
    expect_error("64K-: auto(error=" + std::string(value) + ")", "error: a relative error");
  expect_error("64K-: auto(", "expected error=");
  expect_error("64K-: auto(error", "expected '='");
  expect_error("64K-: auto(error=0.1", "expected ')'");
  expect_error("64K-: auto(error=feedback", "expected ')'");
  expect_error("64K-: auto/direct", "auto chooses its plan");
  expect_error("64K-: auto memory=decay", "auto chooses the memory rule");
  expect_error("64K-: auto(error=0.1) guard=5", "judges its results itself");
  expect_error("64K-: auto(error=0.1) feedback=address", "keeps nothing from call to call");
  expect_error("64K-: auto feedback=off", "keeps nothing from call to call");
  expect_error("64K-: auto(error=feedback) feedback=off", "it chooses methods with feedback");
  expect_error("64K-: auto(error=0.1); 1M- site=a.c*: mpi", "auto and site= in one policy");
  expect_error("auto: mpi", "expected ':' before the method");
}

TEST(SchemeWords, every_scheme_over_every_plan_is_printed_to_text_that_parses_to_it) {
  for (const Scheme& scheme : kSchemes) {
    EXPECT_EQ(kernels::find_codec(scheme.name), nullptr) << scheme.name;
    for (std::size_t plan = 0; plan <= plans().size(); ++plan)
      for (std::size_t i = 0; i <= 2 * scheme.specs.size(); ++i) {
        Method m;
        m.codec = kernels::find_codec("raw");
        m.params = kernels::preset_params(*m.codec);
        m.plan = plan == 0 ? nullptr : &plans()[plan - 1];
        m.scheme = &scheme;
        m.scheme_params = preset_params(scheme);
        if (i > 0)
          m.scheme_params.value[(i - 1) / 2] =
              i % 2 == 0 ? scheme.specs[(i - 1) / 2].min : scheme.specs[(i - 1) / 2].max;
        const std::string text = to_string(m);
        EXPECT_TRUE(text.starts_with(scheme.name)) << text;
        const Result<Policy> policy = Policy::parse("64K-@2-: " + text);
        ASSERT_TRUE(policy.ok()) << policy.status().text();
        EXPECT_EQ(policy->rules()[0].method, m) << text;
        EXPECT_EQ(*Policy::parse(policy->to_string()), *policy);
      }
  }
}

TEST(SchemeWords, errors_name_the_word_and_its_place) {
  expect_error("64K-: lowrank(rank=0)", "bad value \"0\" at character 20 (rank: integer, 1 to 64)");
  expect_error("64K-: lowrank(rank=65)", "bad value \"65\"");
  expect_error("64K-: lowrank(k=2)",
               "unknown parameter \"k\" at character 15 (known: rank: integer, 1 to 64)");
  expect_error("64K-: lowrank/ringg", "unknown plan \"ringg\"");
  expect_error("64K-: lowrank memory=decay",
               "lowrank has feedback of its own, and takes no memory rule at character 15");
  expect_error("lowrank: 64K-", "expected ':' before the method \"lowrank\"");
}

}  // namespace
}  // namespace mq
