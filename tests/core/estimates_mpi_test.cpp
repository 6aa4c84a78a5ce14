// Rules with estimates (memory=ef21, lazy, 3pc) through the public interface, under real MPI: when calls are
// exact, ranks that may or need not send, ranks whose estimates differ, keys that change their rule, and what
// residual functions do with estimates.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/memory.hpp"
#include "mpi_quant/core/estimates.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

constexpr std::size_t kN = 20000;
constexpr const char* kRules[]{"ef21", "lazy(zeta=0)", "3pc", "3pc(v=3)", "3pc(v=5)"};

class EstimatesApi : public Api {
 protected:
  int reduce(const std::vector<float>& x, std::vector<float>& y, const std::string& method,
             bool skip = false) const {
    return MPIQ_Allreduce(
        x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, comm,
        Info{{"mpiq_method", method}, {"mpiq_key", "w"}, {"mpiq_skip", skip ? "true" : "false"}});
  }
  std::vector<float> vector_of_call(int call) const {
    return make_input<float>(Input::normal, kN, seed() + static_cast<std::uint64_t>(10 * call + rank));
  }
  std::vector<float> sum(const std::vector<float>& mine) const {
    std::vector<float> all(mine.size());
    MPI_Allreduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_FLOAT, MPI_SUM, comm);
    return all;
  }
  // The greatest distance between a result and the sum of vectors.
  double error(const std::vector<float>& x, const std::vector<float>& y) const {
    const std::vector<float> exact = sum(x);
    double most = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(y[i]) - static_cast<double>(exact[i])));
    return most;
  }
  MPIQ_Residual listed() const {
    MPIQ_Residual r = MPIQ_RESIDUAL_INIT;
    int n = 1;
    EXPECT_EQ(MPIQ_Residual_list(comm, 1, &r, &n), MPI_SUCCESS);
    EXPECT_EQ(n, 1);
    return r;
  }
  std::uint64_t bytes_of(const std::vector<float>& x, std::vector<float>& y, const std::string& method,
                         bool skip = false) const {
    const std::uint64_t before = stats().wire_bytes_sent;
    EXPECT_EQ(reduce(x, y, method, skip), MPI_SUCCESS) << method;
    return stats().wire_bytes_sent - before;
  }
};

constexpr double kRounding = 1e-5;  // of sums of a few normal numbers

TEST_F(EstimatesApi, the_first_call_is_exact_and_every_one_after_resync_others) {
  if (size == 1) return;
  for (const char* const rule : {"ef21(resync=3)", "lazy(zeta=0,resync=3)", "3pc(resync=3)"}) {
    std::vector<float> y(kN);
    for (int call = 0; call < 9; ++call) {
      const std::vector<float> x = vector_of_call(call);
      ASSERT_EQ(reduce(x, y, std::string("topk(k=0.01) memory=") + rule), MPI_SUCCESS);
      ASSERT_TRUE(same_on_all_ranks(y)) << rule;
      EXPECT_EQ(error(x, y) < kRounding, call % 4 == 0) << rule << " call " << call;
      EXPECT_EQ(listed().since, static_cast<std::uint64_t>(call % 4));
    }
    ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
  }
}

TEST_F(EstimatesApi, all_versions_follow_vectors_that_stand_still_over_every_plan) {
  if (size == 1) return;
  for (const char* const rule : kRules)
    for (const char* const plan :
         {"", "/allgather", "/recursive_doubling", "/ring", "/halving_doubling", "/grid"}) {
      const std::string method = std::string("int8") + plan + " memory=" + rule;
      std::vector<float> y(kN);
      ASSERT_EQ(reduce(vector_of_call(0), y, method), MPI_SUCCESS) << method;
      const std::vector<float> x = vector_of_call(1);
      for (int call = 0; call < 12; ++call) {
        ASSERT_EQ(reduce(x, y, method), MPI_SUCCESS) << method;
        ASSERT_TRUE(same_on_all_ranks(y)) << method;
      }
      // Version 5 follows the last vector and not the estimate, so what the first change lost stays until an
      // exact call.
      EXPECT_LT(error(x, y), std::string(rule) == "3pc(v=5)" ? 0.1 * size : 1e-4) << method;
      ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
    }
}

TEST_F(EstimatesApi, by_a_shared_coin_calls_are_exact_on_all_ranks_alike) {
  if (size == 1) return;
  int exact = 0;
  std::vector<float> y(kN);
  for (int call = 0; call < 40; ++call) {
    const std::vector<float> x = vector_of_call(call);
    ASSERT_EQ(reduce(x, y, "topk memory=3pc(v=5,p=0.5)"), MPI_SUCCESS);
    ASSERT_TRUE(same_on_all_ranks(y));
    exact += error(x, y) < kRounding;
  }
  EXPECT_GT(exact, 8);
  EXPECT_LT(exact, 34);
}

// Frames of a rank that sends nothing have headers only: direct has 2 (P - 1) messages a segment, this is one
// segment.
TEST_F(EstimatesApi, a_rank_may_skip_and_its_last_contribution_stands_but_not_for_ever) {
  if (size == 1) return;
  for (const char* const rule : {"ef21(max=2)", "lazy(zeta=0,max=2)", "3pc(max=2)"}) {
    const std::string method = std::string("raw/allgather memory=") + rule;
    if (method.find("3pc") != std::string::npos) continue;  // two raw messages are longer than the vector
    std::vector<float> y(kN);
    const std::vector<float> first = vector_of_call(0);
    ASSERT_EQ(reduce(first, y, method, rank == 0), MPI_SUCCESS);
    EXPECT_LT(error(first, y), kRounding) << "there is nothing that could stand";
    for (int call = 1; call <= 3; ++call) {
      const std::vector<float> x = vector_of_call(call);
      const std::uint64_t sent = bytes_of(x, y, method, rank == 0);
      ASSERT_TRUE(same_on_all_ranks(y));
      const bool skipped = rank == 0 && call < 3;
      EXPECT_EQ(sent < kN * sizeof(float), skipped) << rule << " call " << call;
      EXPECT_LT(error(rank == 0 && call < 3 ? first : x, y), kRounding) << rule << " call " << call;
    }
    ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
  }
}

TEST_F(EstimatesApi, where_no_rank_sends_no_message_follows_the_agreement) {
  if (size == 1) return;
  std::vector<float> y(kN), x = vector_of_call(0);
  ASSERT_EQ(reduce(x, y, "topk memory=lazy(max=3)"), MPI_SUCCESS);
  const std::vector<float> exact = y;
  for (int call = 1; call <= 3; ++call) {
    y.assign(kN, 0);
    EXPECT_EQ(bytes_of(x, y, "topk memory=lazy(max=3)"), 0u) << "the vector has not moved";
    EXPECT_TRUE(same_bits(y, exact));
  }
  EXPECT_GT(bytes_of(x, y, "topk memory=lazy(max=3)"), 0u) << "a rank must send now and then";
  // In place, too.
  std::vector<float> z = x;
  ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, z.data(), kN, MPI_FLOAT, MPI_SUM, comm,
                           Info{{"mpiq_method", "topk memory=lazy(max=3)"}, {"mpiq_key", "w"}}),
            MPI_SUCCESS);
  EXPECT_TRUE(same_bits(z, exact));
  x[3] += 100;
  EXPECT_EQ(bytes_of(x, y, "topk memory=lazy(max=3)"), 0u)
      << "it has moved as far from its estimate as from its last value";
  ASSERT_EQ(reduce(x, y, "topk memory=lazy(max=3)"), MPI_SUCCESS);
  EXPECT_NEAR(y[3], exact[3] + 100 * static_cast<float>(size), 1e-3) << "this element is sent first";
}

TEST_F(EstimatesApi, where_one_ranks_estimates_differ_all_start_again_by_an_exact_call) {
  if (size == 1) return;
  for (const int what : {0, 1, 2}) {
    std::vector<float> y(kN);
    const std::string method = "topk memory=ef21";
    for (int call = 0; call < 3; ++call) ASSERT_EQ(reduce(vector_of_call(call), y, method), MPI_SUCCESS);
    if (rank == 1 && what == 0) {
      ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
    }
    if (what == 2 || (rank == 1 && what == 1)) {
      ASSERT_EQ(MPIQ_Residual_scale(comm, "w", 0.5), MPI_SUCCESS);
    }
    const std::vector<float> x = vector_of_call(3);
    ASSERT_EQ(reduce(x, y, method), MPI_SUCCESS);
    ASSERT_TRUE(same_on_all_ranks(y));
    EXPECT_EQ(error(x, y) < kRounding, what != 2) << what;
    ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
  }
}

TEST_F(EstimatesApi, a_key_that_comes_from_carry_delivers_its_residual_and_may_go_back) {
  if (size == 1) return;
  std::vector<float> x = vector_of_call(0), y(kN), first(kN);
  ASSERT_EQ(reduce(x, first, "topk(k=0.01)"), MPI_SUCCESS);
  ASSERT_EQ(reduce(x, y, "topk(k=0.01) memory=ef21"), MPI_SUCCESS);
  const std::vector<float> exact = sum(x);
  for (std::size_t i = 0; i < kN; ++i)
    ASSERT_NEAR(first[i] + y[i], 2 * exact[i], 1e-4) << "the exact call brings what carry had left";
  ASSERT_EQ(reduce(vector_of_call(1), y, "topk(k=0.01) memory=ef21"), MPI_SUCCESS);
  std::vector<float> after(kN);
  ASSERT_EQ(reduce(x, after, "topk(k=0.01)"), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(after, first)) << "as with a new key";
  EXPECT_EQ(listed().stamp, 0u);
}

TEST_F(EstimatesApi, a_call_without_a_rule_leaves_what_the_key_keeps) {
  if (size == 1) return;
  for (const char* const rule : {"ef21", "lazy(zeta=0)", "3pc", "carry"}) {
    const std::string method = std::string("topk memory=") + rule;
    std::vector<float> y(kN), expected(kN);
    for (const bool interrupted : {false, true}) {
      for (int call = 0; call < 3; ++call) {
        if (call == 2 && interrupted) {
          for (const char* const other : {"topk memory=none", "mpi"})
            ASSERT_EQ(reduce(vector_of_call(9), y, other), MPI_SUCCESS) << method;
        }
        ASSERT_EQ(reduce(vector_of_call(call), y, method), MPI_SUCCESS) << method;
      }
      if (!interrupted) expected = y;
      ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
    }
    EXPECT_TRUE(same_bits(y, expected)) << method << ": it goes on from where it was";
  }
}

// Their arrays mean something else. Version 5 after ef21, or after a call in which a rank sent nothing, would
// go on from another y.
TEST_F(EstimatesApi, of_another_rule_start_again_and_version_5_delivers_what_a_rank_did_not_send) {
  if (size == 1) return;
  std::vector<float> x = vector_of_call(0), y(kN);
  for (const char* const rule :
       {"ef21", "3pc(v=5,p=0)", "lazy", "3pc(v=5,p=0)", "3pc(v=4)", "3pc(v=5,p=0)"}) {
    x = vector_of_call(1 + static_cast<int>(rule[0]));
    for (int call = 0; call < 3; ++call) {
      ASSERT_EQ(reduce(x, y, std::string("int8 memory=") + rule), MPI_SUCCESS);
      EXPECT_LT(error(x, y), kRounding)
          << rule << " call " << call << " starts by an exact call, and then stands";
    }
  }
  const std::vector<float> first = x;
  x = vector_of_call(2);
  ASSERT_EQ(reduce(x, y, "raw memory=3pc(v=5,p=0)"), MPI_SUCCESS);
  x = vector_of_call(3);
  ASSERT_EQ(reduce(x, y, "raw memory=3pc(v=5,p=0)", rank == 0), MPI_SUCCESS);
  ASSERT_EQ(reduce(x, y, "raw memory=3pc(v=5,p=0)"), MPI_SUCCESS);
  EXPECT_LT(error(x, y), kRounding) << "what was not sent is sent now";
}

TEST_F(EstimatesApi, a_refused_call_of_another_rule_leaves_the_estimates) {
  if (size == 1) return;
  std::vector<float> x = vector_of_call(0), y(kN);
  for (int call = 0; call < 2; ++call) ASSERT_EQ(reduce(x, y, "int8 memory=ef21"), MPI_SUCCESS);
  const std::uint64_t stamp = listed().stamp;
  EXPECT_NE(reduce(x, y, rank == 0 ? "int8" : "int8 memory=decay"), MPI_SUCCESS);
  EXPECT_EQ(listed().stamp, stamp);
}

TEST_F(EstimatesApi, values_that_are_not_finite_reach_all_ranks_once) {
  if (size == 1) return;
  for (const char* const rule : kRules) {
    // With version 5 what a codec loses stays until an exact call.
    const std::string of = std::string(" memory=") + rule;
    const bool is_v5 = of.find("v=5") != std::string::npos;
    const std::string method = (is_v5 ? "raw" : "onebit") + of, later = (is_v5 ? "raw" : "int8") + of;
    std::vector<float> y(kN), x = vector_of_call(0);
    for (int call = 0; call < 4; ++call) {
      x = vector_of_call(call);
      if (call == 2 && rank == 1) x[7] = std::numeric_limits<float>::quiet_NaN();
      ASSERT_EQ(reduce(x, y, method), MPI_SUCCESS);
      ASSERT_TRUE(same_on_all_ranks(y)) << method;
      for (std::size_t i = 0; i < kN; ++i)
        ASSERT_EQ(std::isfinite(y[i]), !(call == 2 && i == 7)) << method << " call " << call << " at " << i;
    }
    // That element is followed again, and not from where it was.
    for (int call = 0; call < 60; ++call) ASSERT_EQ(reduce(x, y, later), MPI_SUCCESS);
    EXPECT_NEAR(y[7], sum(x)[7], 0.05) << rule;
    ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
  }
}

TEST_F(EstimatesApi, residual_functions_say_what_they_cannot_do) {
  if (size == 1) return;
  std::vector<float> y(kN);
  ASSERT_EQ(reduce(vector_of_call(0), y, "topk memory=ef21"), MPI_SUCCESS);
  expect_error_everywhere(MPIQ_Residual_flush(y.data(), kN, MPI_FLOAT, comm, "w"), "holds estimates");
  MPIQ_Residual r = listed();
  EXPECT_NE(r.stamp, 0u);
  std::vector<float> arrays(2 * kN);
  ASSERT_EQ(MPIQ_Residual_get(comm, "w", 0, 2 * kN, arrays.data()), MPI_SUCCESS);
  const void* const buffer = arrays.data();
  ASSERT_EQ(MPIQ_Residual_put(comm, 1, &r, &buffer), MPI_SUCCESS);
  if (rank == 1) arrays[kN + 1] += 1;
  expect_error_everywhere(MPIQ_Residual_put(comm, 1, &r, &buffer), "sum of estimates");
  r.arrays = 1;
  expect_error_everywhere(MPIQ_Residual_put(comm, 1, &r, &buffer), "at least two arrays");
}

TEST_F(EstimatesApi, two_messages_that_are_longer_than_the_vector_are_refused) {
  if (size == 1) return;
  std::vector<float> y(kN);
  expect_error_everywhere(reduce(vector_of_call(0), y, "raw memory=3pc"), "sends more than the vector");
  const int code = reduce(vector_of_call(0), y, "int8 memory=3pc(v=2)");
  expect_error_everywhere(code, "needs an unbiased codec");
  EXPECT_EQ(reduce(vector_of_call(0), y, "natural memory=3pc(v=2)"), MPI_SUCCESS);
}

TEST_F(EstimatesApi, a_wrong_value_of_the_hint_is_an_error_and_other_rules_send_all_the_same) {
  if (size == 1) return;
  const std::vector<float> x = vector_of_call(0);
  std::vector<float> y(kN);
  expect_error_everywhere(
      MPIQ_Allreduce(x.data(), y.data(), kN, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_skip", "yes"}}),
      "mpiq_skip: \"yes\" is neither true nor false");
  ASSERT_EQ(reduce(x, y, "raw", rank == 0), MPI_SUCCESS);
  EXPECT_LT(error(x, y), kRounding);
}

// What two ranks bring, and what both then do: the decision is a function of what all agreed on.
struct Side {
  Reduction reduction;
  std::vector<float> arrays = std::vector<float>(3 * 8, 1.0f);
  Residuals::Entry entry{kernels::Element::f32, 8, {}, {}, Held(0), 3};
  bool has_entry = true, sends = false;
  Maxima maxima;
  DevicePool pool;
  DevicePlacement vectors{pool};  // in host memory
  Side() {
    const kernels::MemoryRule& rule = *kernels::find_memory_rule("3pc");
    kernels::Params params = kernels::preset_params(rule);
    params.value[0] = 5, params.value[1] = 0;
    reduction.memory = {&rule, rule.ops(kernels::Element::f32, kernels::best_isa()), params, 1,
                        rule.terms(params)};
    reduction.residual = reinterpret_cast<std::byte*>(arrays.data());
    entry.version = version_of(77, reduction.memory.terms.form);
  }
  void bring(bool skip) {
    EXPECT_TRUE(measure_feedback(reduction, vectors, has_entry ? &entry : nullptr, skip, maxima).ok());
  }
};
void settle(Side& a, Side& b) {
  const Maxima agreed = greatest(a.maxima, b.maxima);
  for (Side* const side : {&a, &b}) {
    const Status status = settle_estimates(side->reduction, side->vectors, &side->entry, agreed, side->sends);
    EXPECT_TRUE(status.ok());
  }
}

TEST(EstimatesAgreed, ranks_do_alike_whatever_one_of_them_lacks) {
  Side a, b;
  a.bring(false), b.bring(false);
  settle(a, b);
  EXPECT_TRUE(a.sends && b.sends && !a.reduction.memory.exact_restart && !b.reduction.memory.exact_restart);

  Side quiet, other;  // both may stand, so no rank sends
  quiet.bring(true), other.bring(true);
  settle(quiet, other);
  EXPECT_TRUE(!quiet.sends && !other.sends);

  Side without, with;  // an intercepted call whose vector one rank does not know
  without.has_entry = false;
  without.bring(false), with.bring(true);
  settle(without, with);
  for (const Side* const side : {&without, &with}) {
    EXPECT_TRUE(side->sends && side->reduction.memory.ops == nullptr && side->reduction.residual == nullptr);
    EXPECT_EQ(side->arrays[0], 1) << "estimates stay";
  }

  Side stale, newer;  // one rank has been through another call
  stale.entry.version = version_of(78, stale.reduction.memory.terms.form);
  stale.bring(true), newer.bring(true);
  settle(stale, newer);
  for (const Side* const side : {&stale, &newer}) {
    EXPECT_TRUE(side->sends && side->reduction.memory.exact_restart);
    EXPECT_EQ(side->reduction.memory.skipped_messages, 0);
    EXPECT_EQ(side->arrays[0] + side->arrays[8], 0) << "estimates and their sum start at zero";
  }

  Side first, later;  // one has a residual, which stays
  first.entry.version = 0;
  first.bring(false), later.bring(false);
  settle(first, later);
  EXPECT_TRUE(first.reduction.memory.exact_restart && later.reduction.memory.exact_restart);
  EXPECT_TRUE(first.arrays[0] == 1 && first.arrays[8] == 0 && later.arrays[0] == 0);
}

}  // namespace
}  // namespace mq::test
