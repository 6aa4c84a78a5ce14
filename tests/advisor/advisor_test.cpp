// The advisor: what it says of values and of errors is true, it keeps to its time, and what it sends is read
// back or refused.

#include "mpi_quant/advisor/advisor.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "mpi_quant/advisor/advice.hpp"
#include "mpi_quant/advisor/predict.hpp"
#include "mpi_quant/base/pack.hpp"
#include "tests/advisor/samples.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

using kernels::Element;

ClassId class_of(int log2_bytes, int ranks = 4, std::string comm = "world") {
  return {std::move(comm), ranks, "MPI_FLOAT", "MPI_SUM", log2_bytes};
}

// What the advisors of all ranks know after one call.
template <class T>
ClassSums sums_of(const std::vector<std::vector<T>>& inputs, const std::vector<T>& result) {
  ClassSums sums;
  for (const auto& input : inputs) {
    Advisor advisor(kernels::best_isa());
    advisor.see(class_of(20), vectors_of(input, result));
    sums.add(advisor.samples().at(class_of(20)));
  }
  return sums;
}

template <class T>
std::vector<std::vector<T>> independent(Input kind, int ranks, std::size_t n) {
  std::vector<std::vector<T>> inputs;
  for (int r = 0; r < ranks; ++r)
    inputs.push_back(make_input<T>(kind, n, seed() + static_cast<std::uint64_t>(r)));
  return inputs;
}

template <class T>
void expect_true_error(std::string_view text, Input kind, int ranks, double within) {
  const auto inputs = independent<T>(kind, ranks, 150'000);
  const auto exact = sum_of(inputs);
  const ClassSums sums = sums_of(inputs, exact);
  const Method& method = candidates()[candidate(text)].method;
  std::vector<std::vector<T>> decoded;
  for (const auto& input : inputs) decoded.push_back(coded(input, method));
  const auto once = sum_of(decoded), twice = coded(once, method);
  const MethodSums& of = sums.methods[candidate(text)];
  const double first = relative_error(exact, once), both = relative_error(exact, twice);
  const auto told_first = estimated_error(of, ranks, {1, 0}), told_both = estimated_error(of, ranks, {1, 1});
  ASSERT_TRUE(told_first && told_both);
  EXPECT_NEAR(*told_first, first, within * first) << text << " at " << ranks;
  EXPECT_NEAR(*told_both, both, within * both) << text << " at " << ranks;
}

TEST(Advisor, estimated_errors_of_independent_vectors_are_the_true_ones) {
  for (const int ranks : {2, 4}) {
    expect_true_error<float>("onebit", Input::normal, ranks, 0.1);
    expect_true_error<double>("onebit", Input::normal, ranks, 0.1);
    expect_true_error<float>("bf16", Input::normal, ranks, 0.1);
    expect_true_error<double>("bf16", Input::laplace, ranks, 0.1);
  }
}

TEST(Advisor, a_sparse_method_is_not_said_to_be_better_than_it_is) {
  for (const int ranks : {2, 4}) expect_true_error<float>("adaptive", Input::laplace, ranks, 0.2);
}

TEST(Advisor, equal_vectors_of_all_ranks_are_told_from_independent_ones) {
  const auto apart = independent<float>(Input::normal, 4, 20000);
  const std::vector<std::vector<float>> equal(4, apart[0]);
  const std::size_t c = candidate("bf16");
  EXPECT_NEAR(resemblance(sums_of(apart, sum_of(apart)).methods[c], 4), 1, 0.05);
  EXPECT_NEAR(resemblance(sums_of(equal, sum_of(equal)).methods[c], 4), 4, 0.05);
}

TEST(Advisor, a_value_that_overflows_is_an_infinite_error_and_not_a_missing_one) {
  std::vector<double> x(20000, 1.0);
  x[77] = 1e300;  // beyond bfloat16
  const ClassSums sums = sums_of<double>({x, x}, x);
  EXPECT_EQ(sums.methods[candidate("bf16")].input.ruined, 2u);
  const auto error = estimated_error(sums.methods[candidate("bf16")], 2, {1, 1});
  ASSERT_TRUE(error);
  EXPECT_TRUE(std::isinf(*error));
}

TEST(Advisor, nan_and_inf_are_counted_and_left_out_of_errors) {
  auto x = make_input<float>(Input::normal, 200'000, seed());
  const ClassSums clean = sums_of<float>({x, x}, x);
  x[100] = std::numeric_limits<float>::quiet_NaN();
  x[101] = -std::numeric_limits<float>::infinity();
  std::feclearexcept(FE_ALL_EXCEPT);
  const ClassSums sums = sums_of<float>({x, x}, x);
  EXPECT_EQ(std::fetestexcept(FE_INVALID), 0) << "the program sees no flag of ours";
  EXPECT_EQ(sums.values.nonfinite, 4u);
  for (std::size_t c = 0; c < candidates().size(); ++c) {
    EXPECT_EQ(sums.methods[c].input.elements, 400'000u);
    EXPECT_LT(sums.methods[c].input.measured, 400'000u);
    EXPECT_GT(sums.methods[c].input.measured, 0u);
    EXPECT_EQ(sums.methods[c].input.ruined, 0u);
    const auto before = estimated_error(clean.methods[c], 2, {1, 1}),
               after = estimated_error(sums.methods[c], 2, {1, 1});
    ASSERT_TRUE(before && after) << candidates()[c].text;
    EXPECT_NEAR(*after, *before, 0.1 * *before) << candidates()[c].text;
  }
  const std::vector<float> all(20000, std::numeric_limits<float>::quiet_NaN());
  const ClassSums none = sums_of<float>({all, all}, all);
  EXPECT_FALSE(estimated_error(none.methods[0], 2, {1, 1}));
}

TEST(Advisor, zeros_have_no_error_and_statistics_say_so) {
  const std::vector<float> x(20000, 0.0F);
  const ClassSums sums = sums_of<float>({x, x}, x);
  for (const MethodSums& method : sums.methods) EXPECT_EQ(estimated_error(method, 2, {1, 1}), 0.0);
  EXPECT_EQ(words(sums.values), "only zeros");
}

double fake_now = 0, fake_step = 0;
double fake_clock() noexcept { return fake_now += fake_step; }

TEST(Advisor, its_time_stays_within_the_share_and_rare_classes_come_first) {
  const auto x = make_input<float>(Input::normal, 32768, seed());
  fake_now = 0;
  fake_step = 1e-3;  // each look at the clock takes 1 ms, a sample two of them
  Advisor advisor(kernels::best_isa(), fake_clock);
  double first = -1;
  for (int call = 0; call < 4000; ++call) {
    const ClassId id = class_of(call % 20 == 0 ? 18 : 17);
    if (first < 0) first = fake_now;
    advisor.see(id, vectors_of(x, x));
    fake_now += 5e-3;
    const double free_samples = 2 * 3e-3;  // the first of each class
    ASSERT_LE(advisor.spent_s(),
              Advisor::kShare * (fake_now - first) + Advisor::kGrace_s + free_samples + 1e-9);
  }
  const Samples samples = advisor.samples();
  const auto often = samples.at(class_of(17)).samples, rare = samples.at(class_of(18)).samples;
  EXPECT_GT(often + rare, 100u) << "the share is used";
  EXPECT_GE(rare, 3 * often / 5) << "one call in 20, and nearly as many samples";
  EXPECT_EQ(samples.at(class_of(17)).input[0].elements, often * x.size());
}

TEST(Advisor, a_class_that_never_comes_again_does_not_hold_up_the_others) {
  const auto x = make_input<float>(Input::normal, 16384, seed());
  fake_now = 0;
  fake_step = 1e-3;
  Advisor advisor(kernels::best_isa(), fake_clock);
  advisor.see(class_of(30), vectors_of(x, x));
  for (int call = 0; call < 2000; ++call) {
    advisor.see(class_of(16), vectors_of(x, x));
    fake_now += 5e-3;
  }
  EXPECT_GT(advisor.samples().at(class_of(16)).samples, 50u);
}

TEST(Advisor, a_call_in_place_is_seen_as_any_other) {
  const auto inputs = independent<float>(Input::normal, 2, 600'000);
  const auto exact = sum_of(inputs);
  Advisor apart(kernels::best_isa()), in_place(kernels::best_isa());
  apart.see(class_of(21), vectors_of(inputs[0], exact));
  auto buffer = inputs[0];
  const Advisor::Kept kept = in_place.keep(class_of(21), vectors_of(buffer, buffer));
  ASSERT_EQ(kept.n, kWindowElements);
  buffer = exact;
  in_place.see(class_of(21), kept, vectors_of(buffer, buffer));
  const ClassSamples a = apart.samples().at(class_of(21)), b = in_place.samples().at(class_of(21));
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.values, b.values);
  for (std::size_t c = 0; c < candidates().size(); ++c) {
    EXPECT_EQ(a.input[c].error2, b.input[c].error2);
    EXPECT_EQ(a.result[c].error2, b.result[c].error2);
  }
}

TEST(Advisor, windows_are_whole_blocks_inside_the_vector_and_spread_over_it) {
  for (const std::size_t count :
       {std::size_t{1}, kWindowElements, kWindowElements + 1, 5 * kWindowElements + 7}) {
    std::size_t least = count, most = 0;
    for (std::uint64_t k = 0; k < 50; ++k) {
      const Window w = window_of(k, count);
      ASSERT_LE(w.begin + w.n, count);
      ASSERT_EQ(w.n, std::min(count, kWindowElements));
      ASSERT_EQ(w.begin % kWindowGrain, 0u);
      least = std::min(least, w.begin);
      most = std::max(most, w.begin + w.n);
    }
    EXPECT_EQ(least, 0u);
    EXPECT_GT(most + 2 * kWindowGrain, count);
  }
}

TEST(Advisor, what_it_sends_is_read_back_and_a_part_of_it_is_refused) {
  Advisor advisor(kernels::best_isa());
  const auto x = make_input<float>(Input::spikes, 20000, seed());
  const auto y = make_input<double>(Input::huge, 20000, seed());
  for (const char* const comm : {"", "a name\nwith 7:lines ", "end "})
    advisor.see(class_of(17, 3, comm), vectors_of(x, x));
  advisor.see(class_of(18), vectors_of(y, y));
  const Samples samples = advisor.samples();
  const std::string bytes = pack("samples", samples);
  Samples read;
  ASSERT_TRUE(unpack("samples", bytes, read).ok());
  EXPECT_EQ(read, samples);
  ASSERT_TRUE(unpack("samples", pack("samples", Samples{}), read).ok());
  EXPECT_TRUE(read.empty());
  EXPECT_FALSE(unpack("record", bytes, read).ok());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    ASSERT_FALSE(unpack("samples", std::string_view(bytes).substr(0, n), read).ok()) << n;
}

// Ranks of two builds, or with two values of MPIQ_ADVISE_ERROR: each refuses what the other sends, because a
// trial is known by its place in the list. The complaint names the list.
TEST(Advisor, ranks_whose_lists_of_candidates_differ_refuse_each_other) {
  Advisor advisor(kernels::best_isa());
  const auto x = make_input<float>(Input::spikes, 20000, seed());
  advisor.see(class_of(17), vectors_of(x, x));
  const Samples samples = advisor.samples();
  const std::vector<Candidate> all(candidates().begin(), candidates().end());
  std::vector<Candidate> fewer(all.begin(), all.end() - 1), swapped = all, other = all;
  std::swap(swapped[0], swapped[1]);
  other[0].text = "bound(rel=0.001)";
  const auto is_read = [&](const std::vector<Candidate>& by_sender, const std::vector<Candidate>& by_reader) {
    Samples read;
    const Status status =
        unpack(record_kind("1.2.3", by_reader), pack(record_kind("1.2.3", by_sender), samples), read);
    EXPECT_EQ(read.size(), status.ok() ? samples.size() : 0);
    if (!status.ok()) {
      EXPECT_NE(status.text().find("1.2.3 with trials of " + by_reader[0].text + ", "), std::string::npos);
    }
    return status.ok();
  };
  EXPECT_TRUE(is_read(all, all));
  for (const std::vector<Candidate>* const differs : {&fewer, &swapped, &other}) {
    EXPECT_FALSE(is_read(all, *differs));
    EXPECT_FALSE(is_read(*differs, all));
  }
  EXPECT_NE(record_kind("1.2.3", all), record_kind("1.2.4", all));
}

TEST(Advisor, samples_whose_result_was_not_tried_count_for_nothing) {
  Advisor advisor(kernels::best_isa());
  const auto x = make_input<float>(Input::spikes, 20000, seed());
  advisor.see(class_of(17), vectors_of(x, x));
  ClassSamples own = advisor.samples().at(class_of(17));
  ClassSums sums;
  sums.add(own);
  EXPECT_EQ(sums.ranks, 1);
  own.result.clear();
  sums.add(own);
  EXPECT_EQ(sums.ranks, 1);
}

TEST(Values, are_counted_as_what_they_are_and_merged) {
  const std::vector<float> x{0, -0.0F, 3, -7, 0.5F, 1e30F, 0x1p-149F, std::numeric_limits<float>::infinity()};
  ValueStatistics s;
  s.add(bytes_of(x), x.size(), Element::f32);
  EXPECT_EQ(s.n, 8u);
  EXPECT_EQ(s.zeros, 2u);
  EXPECT_EQ(s.whole, 2u) << "1e30 is a whole number like every float of its size";
  EXPECT_EQ(s.nonfinite, 1u);
  EXPECT_EQ(s.min_exponent, -149);
  EXPECT_EQ(s.max_exponent, 99);
  ValueStatistics half, other;
  half.add(bytes_of(x), 3, Element::f32);
  other.add(bytes_of(x) + 3 * sizeof(float), 5, Element::f32);
  half.merge(other);
  EXPECT_DOUBLE_EQ(half.squares, s.squares);
  half.squares = s.squares;
  EXPECT_EQ(half, s);
  const std::vector<double> huge(4, 1e300), tiny(1, 0x1p-1074);
  ValueStatistics d;
  d.add(bytes_of(huge), 4, Element::f64);
  d.add(bytes_of(tiny), 1, Element::f64);
  EXPECT_TRUE(std::isfinite(d.rms()));
  EXPECT_EQ(d.min_exponent, -1074);
}

TEST(Values, counts_zeros_and_nan_are_warned_of) {
  const auto warned = [](const std::vector<float>& x) {
    ValueStatistics s;
    s.add(bytes_of(x), x.size(), Element::f32);
    const auto list = warnings(s);
    return std::accumulate(list.begin(), list.end(), std::string());
  };
  EXPECT_NE(warned({1, 2, 3, 4}).find("100 % of what is not 0 are whole numbers"), std::string::npos);
  EXPECT_NE(warned({0, 0, 0, 0.5F}).find("75 % are zeros"), std::string::npos);
  EXPECT_NE(warned({0.1F, NAN}).find("NaN or Inf seen: 1 of 2"), std::string::npos);
  EXPECT_EQ(warned({0.1F, 0.2F}), "");
}

}  // namespace
}  // namespace mq::test
