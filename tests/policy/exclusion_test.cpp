// Parameters of which only one counts: what is written decides, over the tables of codecs, memory rules and
// schemes.

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "mpi_quant/policy/policy.hpp"
#include "mpi_quant/policy/scheme.hpp"
#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

using kernels::ParamSpec;

std::string assigned(const ParamSpec& spec, double value) {
  return std::string(spec.name) + "=" + value_text(spec, value);
}

// Calls visit(text before the parameters, parameters) for everything that has parameters.
template <class Visit>
void for_each_owner(const Visit& visit) {
  for (const kernels::Codec& codec : kernels::codecs()) visit(std::string(codec.name), codec.specs);
  for (const kernels::MemoryRule& rule : kernels::memory_rules())
    visit("raw memory=" + std::string(rule.name), rule.specs);
  for (const Scheme& scheme : kSchemes)
    visit(std::string(scheme.name), std::span<const ParamSpec>(scheme.specs));
}

std::vector<double> values_of(const ParamSpec& spec) { return {spec.preset, spec.min, spec.max}; }

TEST(Exclusion, two_parameters_of_which_one_counts_are_refused_together_whatever_their_values) {
  int pairs = 0;
  for_each_owner([&](const std::string& owner, std::span<const ParamSpec> specs) {
    for (const ParamSpec& one : specs) {
      if (one.excludes.empty() || one.excluded_value >= 0) continue;
      const ParamSpec* other = nullptr;
      for (const ParamSpec& spec : specs)
        if (spec.name == one.excludes) other = &spec;
      ASSERT_NE(other, nullptr) << owner << " " << one.name;
      ++pairs;
      for (const double a : values_of(one))
        for (const double b : values_of(*other))
          for (const bool first : {true, false}) {
            const std::string x = assigned(one, a), y = assigned(*other, b);
            const std::string text = owner + "(" + (first ? x + "," + y : y + "," + x) + ")";
            const Result<Method> parsed = parse_method(text);
            ASSERT_FALSE(parsed.ok()) << text;
            EXPECT_NE(parsed.status().text().find("give either " + std::string(other->name) + " or " +
                                                  std::string(one.name)),
                      std::string::npos)
                << parsed.status().text();
            EXPECT_TRUE(parse_method(owner + "(" + x + ")").ok()) << x;
            EXPECT_TRUE(parse_method(owner + "(" + y + ")").ok()) << y;
          }
    }
  });
  EXPECT_EQ(pairs, 3) << "bound: abs, rel; rangefloat: range, eps; threshold: tau, quantile";
}

TEST(Exclusion, a_parameter_that_one_value_of_another_makes_void_is_refused_beside_that_value) {
  int pairs = 0;
  for_each_owner([&](const std::string& owner, std::span<const ParamSpec> specs) {
    for (const ParamSpec& one : specs)
      for (const ParamSpec& other : specs) {
        if (one.excluded_value < 0 || one.excludes != other.name) continue;
        ++pairs;
        for (const double a : values_of(one))
          for (const bool first : {true, false}) {
            const auto with = [&](double b) {
              const std::string x = assigned(one, a), y = assigned(other, b);
              return parse_method(owner + "(" + (first ? x + "," + y : y + "," + x) + ")");
            };
            const Result<Method> refused = with(one.excluded_value);
            ASSERT_FALSE(refused.ok()) << owner << " " << one.name;
            EXPECT_NE(refused.status().text().find(std::string(one.name) + " has no effect beside " +
                                                   assigned(other, one.excluded_value)),
                      std::string::npos)
                << refused.status().text();
            EXPECT_TRUE(with(other.preset).ok()) << owner << " " << one.name;
          }
      }
  });
  EXPECT_EQ(pairs, 2) << "fft: man beside bits=32; onebit: block beside means=tensor";
}

TEST(Exclusion, a_value_that_is_the_preset_is_no_excuse) {
  for (const char* const text :
       {"bound(abs=0.001,rel=0.01)", "bound(rel=0.01,abs=0.001)", "bound(abs=0.5,rel=0)",
        "threshold(tau=1,quantile=0.5)", "rangefloat(eps=0,range=0)"})
    EXPECT_FALSE(parse_method(text).ok()) << text;
}

}  // namespace
}  // namespace mq
