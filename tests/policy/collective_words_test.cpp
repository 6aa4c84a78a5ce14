// The words of policies that name a collective: where they stand, which calls they reach, and which methods
// serve which collective.

#include <gtest/gtest.h>

#include <string>

#include "mpi_quant/policy/policy.hpp"

namespace mq::test {
namespace {

Policy policy(std::string_view text) {
  Result<Policy> parsed = Policy::parse(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().text();
  return parsed.ok() ? *parsed : Policy{};
}

std::string error_of(std::string_view text) {
  const Result<Policy> parsed = Policy::parse(text);
  EXPECT_FALSE(parsed.ok()) << text;
  return parsed.ok() ? "" : parsed.status().text();
}

std::string chosen(const Policy& p, Collective collective, std::uint64_t bytes) {
  return to_string(p.choose({.bytes = bytes, .ranks = 4, .collective = collective}));
}

TEST(CollectiveWords, a_rule_without_one_means_allreduce) {
  for (const char* const text : {"64K-: int8", "allreduce 64K-: int8"}) {
    for (const Collective other : kCollectives)
      EXPECT_EQ(chosen(policy(text), other, 1 << 20), other == Collective::allreduce ? "int8" : "mpi")
          << text;
    EXPECT_EQ(policy(text).to_string(), "64K-: int8");
  }
}

TEST(CollectiveWords, a_rule_reaches_calls_of_its_collective_alone) {
  for (const Collective one : kCollectives) {
    if (one == Collective::allreduce) continue;
    const std::string word(name(one));
    const Policy p = policy("64K-: bf16; " + word + " 1M-@2- f32: int8; " + word + " 2M-: mpi");
    EXPECT_EQ(p, policy(p.to_string()));
    EXPECT_EQ(policy(word + " : int8").to_string(), word + ": int8");
    for (const Collective other : kCollectives) {
      const bool is_allreduce = other == Collective::allreduce;
      EXPECT_EQ(chosen(p, other, 1 << 20), is_allreduce ? "bf16" : other == one ? "int8" : "mpi");
      EXPECT_EQ(chosen(p, other, 1 << 19), is_allreduce ? "bf16" : "mpi");
      EXPECT_EQ(chosen(p, other, 1 << 21), is_allreduce ? "bf16" : "mpi");
      EXPECT_EQ(p.prospect({.bytes = 1 << 20, .ranks = 4, .collective = other}).may_compress,
                is_allreduce || other == one);
    }
  }
}

TEST(CollectiveWords, stand_first_and_once) {
  EXPECT_EQ(error_of("1M- reduce_scatter: int8"),
            "policy: a second collective, or one behind other selectors at character 5 (it stands first)");
  EXPECT_EQ(error_of("reduce_scatter allreduce: int8"),
            "policy: a second collective, or one behind other selectors at character 16 (it stands first)");
  EXPECT_NE(error_of("reduce_scater 1M-: int8").find("unknown selector \"reduce_scater\" at character 1"),
            std::string::npos);
}

TEST(CollectiveWords, methods_that_serve_allreduce_only_are_refused_in_other_rules) {
  for (const Collective one : kCollectives) {
    if (one == Collective::allreduce) continue;
    const std::string word(name(one));
    EXPECT_EQ(error_of(word + " 1M-: int8/ring"),
              "policy: " + word + " has a plan of its own, and takes no other at character " +
                  std::to_string(word.size() + 7));
    EXPECT_EQ(Policy::parse(word + " 1M-: int8 memory=ef21").ok(), !adds(one));
    if (adds(one)) {
      EXPECT_NE(error_of(word + " 1M-: int8 memory=ef21").find("serves allreduce, allgather and bcast only"),
                std::string::npos);
    }
    EXPECT_NE(error_of(word + " 1M-: int8 memory=lazy").find("memory=lazy serves allreduce only"),
              std::string::npos);
    EXPECT_NE(error_of(word + " 1M-: topk memory=momentum").find("memory=momentum serves allreduce only"),
              std::string::npos);
    for (const std::string limit : {"", "(error=0.001)", "(error=abs:0.001)"})
      EXPECT_TRUE(Policy::parse(word + " 1M-: auto" + limit).ok()) << word << limit;
    const std::string feedback = word + " 1M-: auto(error=feedback)";
    EXPECT_EQ(Policy::parse(feedback).ok(), adds(one));
    if (!adds(one)) {
      EXPECT_NE(error_of(feedback).find("auto(error=feedback) serves sums"), std::string::npos);
    }
    EXPECT_NE(error_of(word + " 1M-: lowrank").find("lowrank serves allreduce only"), std::string::npos);
    EXPECT_TRUE(Policy::parse(word + " 1M-: topk memory=none").ok());
    EXPECT_EQ(Policy::parse(word + " 1M-: topk guard=3").ok(), adds(one)) << "a guard compares sums";
  }
}

}  // namespace
}  // namespace mq::test
