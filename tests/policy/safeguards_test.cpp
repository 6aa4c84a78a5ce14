// What rules say for unmodified programs alone: call sites, small sums, whose residual is whose, guards.

#include <gtest/gtest.h>

#include "mpi_quant/policy/policy.hpp"

namespace mq::test {
namespace {

using kernels::Element;

Policy policy(std::string_view text) {
  const Result<Policy> p = Policy::parse(text);
  EXPECT_TRUE(p.ok()) << text << ": " << p.status().text();
  return p.ok() ? *p : Policy();
}

std::string error_of(std::string_view text) { return Policy::parse(text).status().text(); }

// A sum of an unmodified program.
CallKey call(std::uint64_t bytes, std::string_view site = "") {
  return {bytes, 4, Element::f32, 0, "", true, site};
}

TEST(Floor, sums_of_a_program_below_64_KiB_need_a_rule_that_says_small) {
  for (const std::string_view text : {": onebit", "0-: onebit", "4K-: onebit"}) {
    EXPECT_TRUE(policy(text).choose(call(65535)).exact()) << text;
    EXPECT_FALSE(policy(text).choose(call(65536)).exact()) << text;
    EXPECT_EQ(policy(text).floor_bytes(), kFloorBytes);
  }
  const Policy small = policy("4K-64K small: onebit");
  EXPECT_FALSE(small.choose(call(4096)).exact());
  EXPECT_TRUE(small.choose(call(65536)).exact());
  EXPECT_EQ(small.floor_bytes(), kSmallFloorBytes);
  CallKey own = call(65535);
  own.intercepted = false;
  EXPECT_FALSE(policy(": onebit").choose(own).exact()) << "MPIQ_Allreduce has no floor";
}

TEST(Floor, no_rule_can_reach_scalars) {
  for (const std::string_view text : {"small: onebit", "0-64K small: onebit", "4095-64K small: onebit"})
    EXPECT_NE(error_of(text).find("must name a lower bound of at least 4K"), std::string::npos) << text;
  EXPECT_TRUE(policy("4K- small: onebit").choose(call(4095)).exact());
}

TEST(Site, selects_by_pattern_and_never_where_the_site_is_unknown) {
  const Policy p = policy(": bf16; site=libgrad*!reduce*: onebit; site=*!norm*: mpi");
  EXPECT_EQ(to_string(p.choose(call(1 << 20, "libgrad.so!reduce_all+0x3c"))), "onebit");
  EXPECT_EQ(to_string(p.choose(call(1 << 20, "app!norm2+0x1"))), "mpi");
  EXPECT_EQ(to_string(p.choose(call(1 << 20, "app+0x12"))), "bf16");
  EXPECT_EQ(to_string(p.choose(call(1 << 20))), "bf16");
}

// What the ranks do together must not depend on where one of them calls from.
TEST(Site, the_prospect_is_what_any_site_may_come_to) {
  struct Case {
    std::string_view text;
    bool may_compress, by_site;
  };
  const Case cases[]{
      {"", false, false},
      {": onebit", true, false},
      {": onebit; : mpi", false, false},
      {"site=a: onebit", true, true},
      {"site=a: mpi", false, true},
      {": onebit; site=a: mpi", true, true},
      {"site=a: onebit; : mpi", false, false},
      {"site=a: onebit; 1G-: onebit; site=b: mpi", true, true},
      {"1G- site=a: onebit", false, false},
  };
  for (const Case& c : cases) {
    const Policy p = policy(c.text);
    for (const std::string_view site : {"", "a", "b", "c"}) {
      const Policy::Prospect prospect = p.prospect(call(1 << 20, site));
      EXPECT_EQ(prospect.may_compress, c.may_compress) << c.text;
      EXPECT_EQ(prospect.by_site, c.by_site) << c.text;
      if (!prospect.may_compress) {
        EXPECT_TRUE(p.choose(call(1 << 20, site)).exact()) << c.text;
      }
    }
  }
}

TEST(Safeguards, options_follow_the_method) {
  const Policy p =
      policy(": onebit/direct feedback=address guard=64 error=0.05; f64: bf16; f16: raw feedback=off");
  EXPECT_EQ(p.rules()[0].safeguards, (Safeguards{Identity::address, 64, 0.05}));
  EXPECT_EQ(p.rules()[1].safeguards, Safeguards{});
  EXPECT_EQ(p.rules()[2].safeguards.feedback, Identity::off);
  EXPECT_EQ(p.to_string(),
            ": onebit/direct feedback=address guard=64 error=0.05; f64: bf16; f16: raw feedback=off");
  EXPECT_EQ(policy(": onebit error = 1e-3 guard = 1K"), policy(":onebit guard=1024 error=0.001"));
  EXPECT_EQ(policy(": onebit feedback=key").to_string(), ": onebit");
  EXPECT_EQ(policy(": qsgd seed=18446744073709551615 guard=2").to_string(),
            ": qsgd guard=2 seed=18446744073709551615");
  EXPECT_EQ(policy(": qsgd seed=0").rules()[0].seed, 0u);
  EXPECT_EQ(policy(": qsgd").rules()[0].seed, std::nullopt);
}

TEST(Safeguards, errors_name_what_is_known) {
  const std::pair<std::string_view, std::string_view> cases[]{
      {": onebit feedbak=key", "unknown option \"feedbak\" at character 10 (known: feedback="},
      {": onebit feedback=yes", "bad value \"yes\" at character 19 (feedback: off|key|address|sequence)"},
      {": onebit feedback", "expected '='"},
      {": onebit guard=0", "guard=0 compares nothing"},
      {": onebit guard=-1", "expected a size"},
      {": onebit guard=1 error=0", "bad value \"0\" at character 24 (error: a relative error, more than 0)"},
      {": onebit guard=1 error=nan", "bad value \"nan\""},
      {": onebit error=0.1", "expected guard=N beside error="},
      {": qsgd seed=-1", "bad value \"-1\" at character 13 (seed: a whole number from 0 to 2^64 - 1)"},
      {": qsgd seed=18446744073709551616", "bad value"},
      {": qsgd seed=1 seed=1", "option \"seed\" given twice"},
      {": onebit guard=1 guard=2", "option \"guard\" given twice at character 18"},
      {": mpi guard=1", "mpi takes no options at character 7"},
      {"small small: mpi", "selector \"small\" given twice"},
      {"site=a site=b: mpi", "selector \"site\" given twice"},
  };
  for (const auto& [text, words] : cases)
    EXPECT_NE(error_of(text).find(words), std::string::npos) << text << " -> " << error_of(text);
}

}  // namespace
}  // namespace mq::test
