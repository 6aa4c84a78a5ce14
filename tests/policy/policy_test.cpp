// The control language: what it accepts and means, what its errors say, and that it survives any text.
// long on purpose: the sentences of one grammar

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant/plan/plan.hpp"
#include "mpi_quant/policy/parameters.hpp"
#include "mpi_quant/policy/policy.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

using kernels::Element;
using kernels::ParamKind;

constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();
constexpr int kNoMax = std::numeric_limits<int>::max();

Policy policy(std::string_view text) {
  Result<Policy> parsed = Policy::parse(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().text();
  return parsed.ok() ? *parsed : Policy{};
}

Method method(std::string_view text) {
  Result<Method> parsed = parse_method(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().text();
  return parsed.ok() ? *parsed : Method{};
}

std::string plan_names(std::string_view between) {
  std::string names;
  for (const PlanRow& plan : plans()) names.append(names.empty() ? "" : between).append(plan.name);
  return names;
}

// The word a policy chooses for a call.
std::string chosen(const Policy& p, std::uint64_t bytes, int ranks, Element element = Element::f32) {
  return to_string(p.choose({bytes, ranks, element}));
}

void expect_policy_error(std::string_view text, const std::string& message) {
  const Result<Policy> parsed = Policy::parse(text);
  ASSERT_FALSE(parsed.ok()) << text;
  EXPECT_EQ(parsed.status().code(), Code::bad_policy) << text;
  EXPECT_EQ(parsed.status().text(), "policy: " + message) << text;
}

std::string known_codecs() {
  std::string names = "mpi, auto";
  for (const kernels::Codec& codec : kernels::codecs()) names.append(", ").append(codec.name);
  for (const Scheme& scheme : kSchemes) names.append(", ").append(scheme.name);
  return names;
}

TEST(Method, mpi_is_exact_and_codec_words_have_their_preset_parameters) {
  EXPECT_TRUE(method("mpi").exact());
  EXPECT_EQ(method("mpi"), Method{});
  EXPECT_EQ(kernels::find_codec("mpi"), nullptr) << "mpi is a reserved word";
  for (const kernels::Codec& codec : kernels::codecs()) {
    const Method m = method(codec.name);
    EXPECT_EQ(m.codec, &codec);
    EXPECT_EQ(m.params, kernels::preset_params(codec));
    EXPECT_EQ(m.plan, nullptr);
    EXPECT_EQ(to_string(m), codec.name);
  }
}

TEST(Method, parameters_and_plan_are_read_and_printed) {
  const Method m = method("onebit(block=512)/direct");
  EXPECT_EQ(m.codec->name, "onebit");
  EXPECT_EQ(m.params.value[0], 512);
  EXPECT_EQ(m.plan, find_plan("direct"));
  EXPECT_EQ(to_string(m), "onebit(block=512)/direct");
  EXPECT_EQ(params_to_string(m), "block=512,means=block,split=mean,rows=0,ld=0");
  EXPECT_EQ(method(" onebit ( block = 512 ) / direct\n"), m);
  EXPECT_EQ(to_string(method("onebit(block=2048)")), "onebit") << "the preset is not printed";
  EXPECT_EQ(params_to_string(method("onebit")), "block=2048,means=block,split=mean,rows=0,ld=0")
      << "every parameter is printed";
  EXPECT_EQ(params_to_string(method("mpi")), "");
  EXPECT_EQ(params_to_string(method("bf16")), "round=nearest");
  EXPECT_EQ(params_to_string(method("raw")), "");
}

// Every method over the tables with each parameter at its preset and its limits.
std::vector<Method> all_methods() {
  std::vector<Method> all{Method{}};
  for (const kernels::Codec& codec : kernels::codecs())
    for (std::size_t plan = 0; plan <= plans().size(); ++plan) {
      Method m{&codec, kernels::preset_params(codec), plan == 0 ? nullptr : &plans()[plan - 1], nullptr, {}};
      all.push_back(m);
      for (std::size_t i = 0; i < codec.specs.size(); ++i)
        for (const double v : {codec.specs[i].min, codec.specs[i].max}) {
          m.params = kernels::preset_params(codec);
          m.params.value[i] = v;
          all.push_back(m);
        }
    }
  return all;
}

TEST(Method, every_row_of_the_tables_is_printed_to_text_that_parses_to_it) {
  for (const Method& m : all_methods()) {
    EXPECT_EQ(method(to_string(m)), m) << to_string(m);
    if (m.exact() || m.codec->specs.empty()) continue;
    const std::string all = std::string(m.codec->name) + "(" + params_to_string(m) + ")";
    EXPECT_EQ(method(all).params, m.params) << all;
  }
}

TEST(Method, parameters_outside_their_range_or_kind_are_rejected_for_every_codec) {
  for (const kernels::Codec& codec : kernels::codecs())
    for (const kernels::ParamSpec& spec : codec.specs) {
      const std::string head = std::string(codec.name) + "(" + std::string(spec.name) + "=";
      std::vector<std::string> bad{
          "",    "nan",  "inf", "-inf", "0x40", "1e999", "64K", "6 4",
          "6,4", "+64",  "64.", "-64",  "1e-5", "abc",   "=",   "99999999999999999999",
          "64)", "(64)", "\xff"};
      if (spec.kind != ParamKind::real) bad.insert(bad.end(), {"64.0", "6.4e1", "9007199254740993"});
      if (spec.kind == ParamKind::real) std::erase_if(bad, [](auto& s) { return s == "64." || s == "1e-5"; });
      if (spec.kind == ParamKind::power_of_two) bad.insert(bad.end(), {"63", "65", "0"});
      if (spec.min - 1 != spec.min) bad.push_back(std::to_string(static_cast<long long>(spec.min - 1)));
      if (spec.max + 1 != spec.max) bad.push_back(std::to_string(static_cast<long long>(spec.max + 1)));
      for (const std::string& value : bad)
        EXPECT_FALSE(parse_method(head + value + ")").ok()) << head + value + ")";
    }
}

TEST(Method, errors_name_the_word_its_place_and_what_is_known) {
  const std::pair<std::string_view, std::string> cases[]{
      {"", "expected a method, found the end at character 1"},
      {"onebitt", "unknown codec \"onebitt\" at character 1 (known: " + known_codecs() + ")"},
      {"onebit(size=1)",
       "unknown parameter \"size\" at character 8 (known: block: power of two, 32 to 4096; means: "
       "block|column|tensor; split: zero|mean; rows: integer, 0 to 2147483648; ld: integer, 0 to "
       "2147483648)"},
      {"onebit(means=row)", "bad value \"row\" at character 14 (means: block|column|tensor)"},
      {"raw(block=64)", "unknown parameter \"block\" at character 5 (raw takes none)"},
      {"onebit(block=48)", "bad value \"48\" at character 14 (block: power of two, 32 to 4096)"},
      {"onebit(block=8192)", "bad value \"8192\" at character 14 (block: power of two, 32 to 4096)"},
      {"onebit(block=64,block=64)", "parameter \"block\" given twice at character 17"},
      {"minifloat(exp=5,man=4)", "minifloat: sign, exp and man take more than 8 bits at character 1"},
      {"bound(abs=1e-9,rel=0.1)", "bound: give either abs or rel at character 23"},
      {"rangefloat(range=1,eps=1)", "rangefloat: give either range or eps at character 25"},
      {"onebit()", "expected a parameter name, found \")\" at character 8"},
      {"onebit(block)", "expected '=', found \")\" at character 13"},
      {"onebit(block=64",
       "expected ',' or ')', found the end at character 16 (cut at a comma on its way here? "
       "MPIQ_POLICY_FILE names a file of rules)"},
      {"onebit/", "expected a plan, found the end at character 8"},
      {"onebit/none", "unknown plan \"none\" at character 8 (known: " + plan_names(", ") + ")"},
      {"mpi/direct", "mpi takes no parameters and no plan at character 4"},
      {"mpi(block=64)", "mpi takes no parameters and no plan at character 4"},
      {"onebit bf16", "unexpected \"bf16\" at character 8"},
      {"onebit/direct;", "unexpected \";\" at character 14"},
      {"\x1b[31mred", "expected a method, found \"?[31mred\" at character 1"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Method> parsed = parse_method(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::bad_policy);
    EXPECT_EQ(parsed.status().text(), "method: " + message) << text;
  }
}

TEST(Size, takes_a_number_and_a_binary_suffix) {
  const std::pair<std::string_view, std::uint64_t> good[]{
      {"0", 0},
      {"1", 1},
      {"64K", 65536},
      {"3M", 3 << 20},
      {"1G", 1 << 30},
      {" 7 ", 7},
      {"007", 7},
      {"0G", 0},
      {"18446744073709551615", kNoEnd},
      {"17179869183G", 17179869183u * (std::uint64_t{1} << 30)}};
  for (const auto& [text, value] : good) {
    const Result<std::uint64_t> size = parse_size(text);
    ASSERT_TRUE(size.ok()) << text << ": " << size.status().text();
    EXPECT_EQ(*size, value) << text;
  }
}

TEST(Size, rejects_everything_else_and_says_why) {
  const std::pair<std::string_view, std::string> bad[]{
      {"", "expected a size, found the end at character 1"},
      {"K", "expected a size, found \"K\" at character 1"},
      {"-5", "expected a size, found \"-5\" at character 1"},
      {"+5", "expected a size, found \"+5\" at character 1"},
      {"64k", "unknown suffix \"k\" at character 3 (known: K, M, G)"},
      {"64KiB", "unknown suffix \"KiB\" at character 3 (known: K, M, G)"},
      {"0x10", "unknown suffix \"x10\" at character 2 (known: K, M, G)"},
      {"1e6", "unknown suffix \"e6\" at character 2 (known: K, M, G)"},
      {"1.5M", "unexpected \".5M\" at character 2"},
      {"64 K", "unexpected \"K\" at character 4"},
      {"18446744073709551616", "\"18446744073709551616\" does not fit in 64 bits at character 1"},
      {"17179869184G", "\"17179869184G\" does not fit in 64 bits at character 1"},
  };
  for (const auto& [text, message] : bad) {
    const Result<std::uint64_t> size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.status().text(), "size: " + message) << text;
  }
}

TEST(Policy, no_rules_and_no_match_mean_mpi) {
  EXPECT_TRUE(Policy{}.always_exact());
  EXPECT_TRUE(policy("").always_exact());
  EXPECT_EQ(policy(" \n\t"), Policy{});
  EXPECT_TRUE(policy("64K-: mpi; : mpi").always_exact());
  EXPECT_FALSE(policy("64K-: mpi; : raw").always_exact());
  EXPECT_EQ(chosen(Policy{}, 1 << 20, 4), "mpi");
  EXPECT_EQ(chosen(policy("64K-: onebit"), 65535, 4), "mpi");
}

TEST(Policy, the_last_matching_rule_wins) {
  const Policy p = policy("0-64K: mpi; 64K-: onebit; 8M-@4-: bf16/direct; f64: raw");
  EXPECT_EQ(chosen(p, 0, 2), "mpi");
  EXPECT_EQ(chosen(p, (64 << 10) - 1, 2), "mpi");
  EXPECT_EQ(chosen(p, 64 << 10, 2), "onebit");
  EXPECT_EQ(chosen(p, 8 << 20, 3), "onebit");
  EXPECT_EQ(chosen(p, 8 << 20, 4), "bf16/direct");
  EXPECT_EQ(chosen(p, (8 << 20) - 1, 4), "onebit");
  EXPECT_EQ(chosen(p, 8 << 20, 4, Element::f64), "raw");
}

TEST(Policy, ranges_of_bytes_exclude_and_ranges_of_ranks_include_the_upper_end) {
  struct Case {
    std::string_view selectors;
    std::uint64_t bytes_min, bytes_end;
    int ranks_min, ranks_max;
  };
  const Case cases[]{
      {"", 0, kNoEnd, 1, kNoMax},
      {"100-101", 100, 101, 1, kNoMax},
      {"100-", 100, kNoEnd, 1, kNoMax},
      {"-100", 0, 100, 1, kNoMax},
      {"100-200", 100, 200, 1, kNoMax},
      {"1K-2M", 1024, 2 << 20, 1, kNoMax},
      {"@4", 0, kNoEnd, 4, 4},
      {"@4-", 0, kNoEnd, 4, kNoMax},
      {"@-4", 0, kNoEnd, 1, 4},
      {"@2-4", 0, kNoEnd, 2, 4},
      {"@1K", 0, kNoEnd, 1024, 1024},
      {"@1-2147483647", 0, kNoEnd, 1, kNoMax},
      {"64K-1M@4- f32", 65536, 1 << 20, 4, kNoMax},
  };
  for (const Case& c : cases) {
    const Policy p = policy(std::string(c.selectors) + ":raw");
    ASSERT_EQ(p.rules().size(), 1u) << c.selectors;
    const Rule& rule = p.rules()[0];
    EXPECT_EQ(rule.bytes_min, c.bytes_min) << c.selectors;
    EXPECT_EQ(rule.bytes_end, c.bytes_end) << c.selectors;
    EXPECT_EQ(rule.ranks_min, c.ranks_min) << c.selectors;
    EXPECT_EQ(rule.ranks_max, c.ranks_max) << c.selectors;
    EXPECT_TRUE(rule.matches({c.bytes_min, c.ranks_max, Element::f32})) << c.selectors;
    EXPECT_TRUE(rule.matches({c.bytes_end - 1, c.ranks_min, Element::f32})) << c.selectors;
    EXPECT_FALSE(rule.matches({c.bytes_end, c.ranks_min, Element::f32})) << c.selectors;
    EXPECT_FALSE(rule.matches({c.bytes_min, c.ranks_min - 1, Element::f32})) << c.selectors;
  }
  EXPECT_EQ(policy("f64: raw").rules()[0].element, static_cast<int>(Element::f64));
}

TEST(Policy, calls_and_communicators_select) {
  const Policy p = policy(": bf16; calls=10-20: onebit; comm=solver*: mpi; calls=7 comm=*?grad: raw");
  const auto at = [&](std::uint64_t call, std::string_view comm) {
    return to_string(p.choose({1 << 20, 4, Element::f32, call, comm}));
  };
  EXPECT_EQ(at(0, ""), "bf16");
  EXPECT_EQ(at(9, "x"), "bf16");
  EXPECT_EQ(at(10, "x"), "onebit");
  EXPECT_EQ(at(19, "x"), "onebit");
  EXPECT_EQ(at(20, "x"), "bf16");
  EXPECT_EQ(at(10, "solver"), "mpi");
  EXPECT_EQ(at(10, "solver 3 of 4"), "mpi");
  EXPECT_EQ(at(10, "a solver"), "onebit");
  for (const std::string_view name : {"agrad", "ggrad", "gradgrad", "my grad"}) EXPECT_EQ(at(7, name), "raw");
  for (const std::string_view name : {"", "grad", "agrads"}) EXPECT_EQ(at(7, name), "bf16");
  EXPECT_EQ(policy("comm=a*b*c: raw").choose({1, 2, Element::f32, 0, "abbbcbc"}).codec->name, "raw");
  EXPECT_TRUE(policy("comm=a*b*c: raw").choose({1, 2, Element::f32, 0, "abbbcb"}).exact());
  EXPECT_EQ(p.to_string(), ": bf16; calls=10-20: onebit; comm=solver*: mpi; calls=7-8 comm=*?grad: raw");
  EXPECT_EQ(policy("64K-@2- f32 comm=a calls=-5: raw").to_string(), "64K- @2- f32 calls=0-5 comm=a: raw");
  expect_policy_error("calls: raw", "expected '=', found \": raw\" at character 6");
  expect_policy_error("calls=5-5: raw", "empty range of calls at character 7 (the upper end is excluded)");
  expect_policy_error("f32 f64: raw", "a second element type at character 5");
  expect_policy_error("comm=a comm=b: raw", "selector \"comm\" given twice at character 8");
  expect_policy_error("calls=-5 calls=9-: raw", "selector \"calls\" given twice at character 10");
  expect_policy_error("comm=: raw", "expected a name, found \": raw\" at character 6");
}

TEST(Policy, white_space_between_words_means_nothing) {
  const Policy expected = policy("64K-1M@2-4 f64:onebit(block=64)/direct;:mpi");
  EXPECT_EQ(policy(" 64K - 1M\n@ 2 - 4\tf64 : onebit ( block = 64 ) / direct ; : mpi "), expected);
  EXPECT_EQ(policy("64K-1M@2- f64:raw"), policy("64K-1M@2-f64:raw"));
  expect_policy_error("@2-4f64: raw", "unknown suffix \"f64\" at character 5 (known: K, M, G)");
}

TEST(Policy, prints_the_shortest_text_that_means_the_same) {
  const std::pair<std::string_view, std::string_view> cases[]{
      {"65536-:onebit(block=2048)", "64K-: onebit"},
      {"0-65536 : mpi", "0-64K: mpi"},
      {"100-101:raw", "100-101: raw"},
      {"0-@1-:bf16", ": bf16"},
      {"1048576-1073741824@4-4 f32:bf16", "1M-1G @4 f32: bf16"},
      {"@-4:raw;f64:mpi", "@1-4: raw; f64: mpi"},
      {"1536K-2049M:raw", "1536K-2049M: raw"},
      {"", ""},
  };
  for (const auto& [text, canonical] : cases) EXPECT_EQ(policy(text).to_string(), canonical) << text;
}

TEST(Policy, errors_name_the_word_its_place_and_what_is_known) {
  expect_policy_error("0-: onebitt",
                      "unknown codec \"onebitt\" at character 5 (known: " + known_codecs() + ")");
  expect_policy_error("64K-", "expected ':' between selectors and method, found the end at character 5");
  expect_policy_error(
      "64K- onebit",
      "expected ':' before the method \"onebit\" at character 6 (a rule is 'selectors: method')");
  expect_policy_error(
      "mpi", "expected ':' before the method \"mpi\" at character 1 (a rule is 'selectors: method')");
  expect_policy_error(
      "64K- f128: onebit",
      "unknown selector \"f128\" at character 6 (known: f32, f64, f16, bf16, calls=N-M, comm=NAME, "
      "site=NAME, small)");
  expect_policy_error("64K-:", "expected a method, found the end at character 6");
  expect_policy_error("64K-: mpi;", "expected a rule, found the end at character 11");
  expect_policy_error(";", "expected a rule, found \";\" at character 1");
  expect_policy_error("64K-: mpi 1M-: raw", "unexpected \"1M-: raw\" at character 11");
  expect_policy_error("64k-: mpi", "unknown suffix \"k\" at character 3 (known: K, M, G)");
  expect_policy_error("-: mpi", "expected a number, found \": mpi\" at character 2");
  expect_policy_error("@: mpi", "expected a number, found \": mpi\" at character 2");
  expect_policy_error("5-5: mpi", "empty range of bytes at character 1 (the upper end is excluded)");
  expect_policy_error("-0: mpi", "empty range of bytes at character 1 (the upper end is excluded)");
  expect_policy_error("18446744073709551615: mpi",
                      "empty range of bytes at character 1 (the upper end is excluded)");
  expect_policy_error("99999999999G-: mpi", "\"99999999999G\" does not fit in 64 bits at character 1");
  expect_policy_error("@4-2: mpi", "empty range of ranks at character 2");
  expect_policy_error("@0-2: mpi", "rank counts start at 1 at character 2");
  expect_policy_error("@4-2147483648: mpi", "rank count beyond 2147483647 at character 2");
  expect_policy_error("1.5M-: mpi",
                      "expected ':' between selectors and method, found \".5M-: mpi\" at character 2");
}

TEST(Policy, a_size_alone_is_refused_with_the_two_ranges_that_may_be_meant) {
  expect_policy_error("1M: onebit",
                      "a rule for exactly 1048576 bytes at character 1 "
                      "(write \"1M-\" for that and more, \"1M-1048577\" for exactly that)");
  expect_policy_error(": bf16; 4096 @2 f32: raw",
                      "a rule for exactly 4096 bytes at character 9 "
                      "(write \"4K-\" for that and more, \"4K-4097\" for exactly that)");
  EXPECT_EQ(chosen(policy("1M-1048577: raw"), 1 << 20, 2), "raw");
  EXPECT_EQ(chosen(policy("1M-1048577: raw"), (1 << 20) + 1, 2), "mpi");
  EXPECT_EQ(policy("@2 calls=3: raw"), policy("@2 calls=3-4: raw"))
      << "one rank count and one call may be meant";
}

// Whatever is accepted prints to a text that parses to the same and prints the same.
void expect_total(const std::string& text) {
  if (const Result<Policy> p = Policy::parse(text); p.ok()) {
    const std::string canonical = p->to_string();
    const Result<Policy> again = Policy::parse(canonical);
    ASSERT_TRUE(again.ok()) << text << " -> " << canonical << ": " << again.status().text();
    ASSERT_EQ(*again, *p) << text << " -> " << canonical;
    ASSERT_EQ(again->to_string(), canonical);
  } else {
    const Status status = p.status();
    ASSERT_EQ(status.code(), Code::bad_policy);
    ASSERT_FALSE(status.text().empty());
    ASSERT_LT(status.text().size(), 400u) << text;
    for (const char c : status.text()) ASSERT_TRUE(c >= ' ' && c <= '~') << text;
  }
  if (const Result<Method> m = parse_method(text); m.ok()) {
    ASSERT_EQ(*parse_method(to_string(*m)), *m) << text;
  }
  (void)parse_size(text).ok();
}

TEST(Fuzz, any_bytes_are_parsed_or_rejected) {
  std::mt19937_64 random(seed());
  for (int i = 0; i < 100000; ++i) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random());
    ASSERT_NO_FATAL_FAILURE(expect_total(text));
  }
}

TEST(Fuzz, any_soup_of_tokens_is_parsed_or_rejected) {
  std::istringstream words(
      plan_names(" ") +
      " mpi raw bf16 f16 reduce_scatter allgather allreduce onebit block f32 f64 site= comm= small feedback= "
      "guard= error= address key 0 1 7 64 512 64K 1M 2G K : "
      "; @ "
      "- ( "
      ") = , / nan 0x1p 1e9 2147483647 18446744073709551615 18446744073709551616 -0 . + \xff");
  std::vector<std::string> tokens{" ", "\n"};
  for (std::string word; words >> word;) tokens.push_back(word);
  std::mt19937_64 random(seed());
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string text = random() % 2 ? "" : "64K-:";
    for (std::size_t k = random() % 12; k > 0; --k) text += tokens[random() % tokens.size()];
    accepted += Policy::parse(text).ok();
    ASSERT_NO_FATAL_FAILURE(expect_total(text));
  }
  EXPECT_GT(accepted, 1000) << "the soup is too thin to test anything";
}

TEST(Fuzz, a_random_policy_is_printed_to_text_that_parses_to_it) {
  const std::vector<Method> methods = all_methods();
  std::mt19937_64 random(seed());
  const auto number = [&] { return std::to_string(random() >> (random() % 64)); };
  const auto small = [&] { return std::to_string(1 + random() % 9); };
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t k = 1 + random() % 5; k > 0; --k) {
      if (!text.empty()) text += ";";
      if (random() % 2) text += (random() % 2 ? number() : "") + "-" + number();
      if (random() % 2) text += "@" + small() + (random() % 2 ? "-" : "");
      if (random() % 2) text += random() % 2 ? " f32" : " f64";
      text += ":" + to_string(methods[random() % methods.size()]);
      if (random() % 2) text += " feedback=sequence";
      if (random() % 2) text += " guard=" + small() + " error=0." + small();
    }
    accepted += Policy::parse(text).ok();
    ASSERT_NO_FATAL_FAILURE(expect_total(text));
  }
  EXPECT_GT(accepted, 5000);
}

TEST(Fuzz, every_prefix_and_every_one_character_change_of_a_policy_is_parsed_or_rejected) {
  const std::string text = "0-64K: mpi; 64K-1G@2-4 f32: onebit(block=512)/direct; @8-: bf16/allgather";
  for (std::size_t i = 0; i <= text.size(); ++i) ASSERT_NO_FATAL_FAILURE(expect_total(text.substr(0, i)));
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int c = 0; c < 256; ++c) {
      std::string changed = text;
      changed[i] = static_cast<char>(c);
      ASSERT_NO_FATAL_FAILURE(expect_total(changed));
    }
}

}  // namespace
}  // namespace mq::test
