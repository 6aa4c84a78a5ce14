// Samples of vectors: what they say of errors, also of very small and great numbers, and of residuals.

#include "mpi_quant/automatic/sample.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/inputs.hpp"

namespace mq {
namespace {

AutoCandidate candidate(const char* text) {
  AutoCandidate c;
  c.method = *parse_method(text);
  c.is_sure = c.method.codec->lossless;
  return c;
}

template <class T>
SampledVector sampled(const std::vector<T>& x, const std::vector<T>& waits = {}) {
  return {reinterpret_cast<const std::byte*>(x.data()), x.size(),
          waits.empty() ? nullptr : reinterpret_cast<const std::byte*>(waits.data())};
}

template <class T>
SampledVector of_group(const std::vector<T>& x, const std::vector<T>& waits = {}) {
  SampledVector vector = sampled(x, waits);
  vector.is_of_group = true;
  return vector;
}

template <class T>
Sampled tried(const std::vector<T>& x, const char* method, double call_s = 1) {
  Sample sample;
  const SampledVector vector[]{sampled(x)};
  EXPECT_TRUE(
      sample.take(vector, sizeof(T) == 8 ? kernels::Element::f64 : kernels::Element::f32, call_s, 3, true));
  return sample.try_on(candidate(method), kernels::Isa::scalar, true);
}

TEST(Sample, errors_and_bytes_are_those_of_the_codec) {
  for (const std::size_t n : {1, 255, 256, 257, 100000}) {
    const auto x = test::make_input<float>(test::Input::normal, n, 1);
    for (const double call_s : {0.0, 1e-5, 1.0}) {
      EXPECT_LT(tried(x, "bf16", call_s).error, 0.004F) << n;
      EXPECT_GT(tried(x, "bf16", call_s).wire_bytes, 1.9F) << n;
      EXPECT_EQ(tried(x, "raw", call_s).error, 0) << n;
    }
  }
  const auto x = test::make_input<float>(test::Input::normal, 100000, 1);
  EXPECT_NEAR(tried(x, "int8").error, 0.007, 0.002);
  EXPECT_NEAR(tried(x, "onebit").error, 0.6, 0.05);
  std::vector<float> sparse(100000);
  for (std::size_t i = 0; i < sparse.size(); i += 100) sparse[i] = 1;
  EXPECT_LT(tried(sparse, "zerorun").wire_bytes, 0.5F);
}

TEST(Sample, rates_are_known_for_vectors_of_any_length_and_type) {
  for (const std::size_t n : {1, 3, 255, 1024, 1025, 300000}) {
    const auto check = [&](const auto& x, kernels::Element element) {
      const auto before = x;
      Sample sample;
      const CodecRates rates =
          sample.rates(reinterpret_cast<const std::byte*>(x.data()), n, element, kernels::Isa::scalar);
      EXPECT_GT(rates.encode, 1e4) << n;
      EXPECT_GT(rates.decode, 1e4) << n;
      EXPECT_TRUE(std::isfinite(rates.encode) && std::isfinite(rates.decode)) << n;
      EXPECT_EQ(x, before);
    };
    check(test::make_input<float>(test::Input::normal, n, 1), kernels::Element::f32);
    check(test::make_input<double>(test::Input::normal, n, 1), kernels::Element::f64);
  }
}

// A machine that has the rates by which the candidates state their times takes these times.
TEST(Sample, a_usual_machine_is_neither_slow_nor_fast) {
  for (const kernels::Element element : {kernels::Element::f32, kernels::Element::f64}) {
    const CodecRates usual = usual_rates(element);
    EXPECT_DOUBLE_EQ(slowness_of(usual, element).encode, 1);
    EXPECT_DOUBLE_EQ(slowness_of({usual.encode / 2, usual.decode / 3}, element).encode, 2);
    EXPECT_DOUBLE_EQ(slowness_of({usual.encode / 2, usual.decode / 3}, element).decode, 3);
    EXPECT_DOUBLE_EQ(slowness_of({}, element).encode, 1) << "not known";
    EXPECT_LE(slowness_of({1, 1}, element).decode, 10) << "disturbed";
  }
}

TEST(Sample, very_small_and_very_great_numbers_have_their_error) {
  for (const double scale : {1e-300, 1e-170, 1.0, 1e150, 1e300}) {
    std::vector<double> x = test::make_input<double>(test::Input::normal, 10000, 1);
    for (double& v : x) v *= scale;
    EXPECT_NEAR(tried(x, "onebit").error, 0.6, 0.05) << scale;
  }
  const std::vector<double> tiny(1000, 1e-50);
  EXPECT_GT(tried(tiny, "bf16").error, 0.9F) << "bf16 has no number that small";
  for (const float v : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(tried(std::vector<float>(1000, v), "int8").error, unknown_sample().error);
  EXPECT_EQ(tried(std::vector<float>(1000, 0.0F), "int8").error, 0);
}

TEST(Sample, what_a_codec_measures_of_vectors_is_measured_of_the_sample) {
  for (const float scale : {1e-6F, 1.0F, 1e6F}) {
    auto x = test::make_input<float>(test::Input::normal, 100000, 1);
    for (float& v : x) v *= scale;
    const Sampled fine = tried(x, "bound(rel=0.001)"), coarse = tried(x, "bound(rel=0.1)");
    EXPECT_LT(fine.error, 0.005F) << scale;
    EXPECT_GT(coarse.error, 10 * fine.error) << scale;
    EXPECT_LT(coarse.wire_bytes, fine.wire_bytes) << scale;
    EXPECT_NEAR(tried(x, "threshold(quantile=0.9)").wire_bytes, 0.1, 0.05) << scale;
  }
}

TEST(Sample, a_debt_is_counted_in_lengths_of_the_vector) {
  const auto x = test::make_input<float>(test::Input::normal, 5000, 1);
  std::vector<float> residual = x;
  for (float& r : residual) r *= -3;
  const std::vector<float> nothing(x.size());
  const auto debt = [](const std::vector<SampledVector>& vectors) {
    Sample sample;
    EXPECT_TRUE(sample.take(vectors, kernels::Element::f32, 1, 0, true));
    return sample.debt();
  };
  EXPECT_NEAR(debt({sampled(x, residual)}), 3, 1e-5);
  EXPECT_EQ(debt({sampled(x, nothing)}), 0);
  EXPECT_EQ(debt({sampled(nothing, residual)}), unknown_sample().error);
  // Of a group the greatest counts. One that is zero in this call only gets what waits, also if it is alone.
  EXPECT_NEAR(debt({of_group(x, nothing), of_group(x, residual), of_group(x)}), 3, 1e-5);
  EXPECT_EQ(debt({of_group(x, nothing), of_group(nothing, residual)}), 0);
  EXPECT_EQ(debt({of_group(nothing, residual)}), 0);
}

// A short one that loses much is not hidden by a long one beside it that loses nothing.
TEST(Sample, the_error_of_several_vectors_is_that_of_the_worst) {
  std::vector<float> sparse(100000), dense = test::make_input<float>(test::Input::normal, 3000, 1);
  for (std::size_t i = 0; i < sparse.size(); i += 100) sparse[i] = 1000;
  const auto error = [&](const std::vector<SampledVector>& vectors, double call_s, bool of_each,
                         std::uint64_t number = 0) {
    Sample sample;
    EXPECT_TRUE(sample.take(vectors, kernels::Element::f32, call_s, number, of_each));
    return sample.try_on(candidate("topk(k=0.02)"), kernels::Isa::scalar, true).error;
  };
  for (const double call_s : {0.0, 1e-4, 1.0}) {
    EXPECT_GT(error({sampled(sparse), sampled(dense)}, call_s, true), 0.5F) << call_s;
    EXPECT_GT(error({sampled(dense), sampled(sparse)}, call_s, true), 0.5F) << call_s;
    EXPECT_EQ(error({sampled(sparse), sampled(sparse)}, call_s, true), 0) << call_s;
  }
  // Where not each has to be seen, a short call looks at one, at each of them now and then.
  int seen = 0;
  for (std::uint64_t number = 0; number < 1000; ++number)
    seen += error({sampled(sparse), sampled(dense)}, 0, false, number) > 0;
  EXPECT_NEAR(seen, 30, 20);
}

// The codes of vectors count as much as the vectors are long, though short ones are sampled no less.
// Of a vector of 511 elements a run of 256 shows a half; all halves come in turn.
TEST(Sample, each_element_is_seen_in_some_call) {
  std::vector<float> x(511), w(511);
  for (const std::size_t last : {0, 100, 255, 256, 300, 510}) {
    std::fill(x.begin(), x.end(), 1.0f);
    std::fill(w.begin(), w.end(), 0.0f);
    w[last] = 1;
    int seen = 0;
    const SampledVector vector{reinterpret_cast<const std::byte*>(x.data()), x.size(),
                               reinterpret_cast<const std::byte*>(w.data())};
    Sample sample;
    for (std::uint64_t number = 0; number < 3000; ++number) {
      ASSERT_TRUE(sample.take(std::span(&vector, 1), kernels::Element::f32, 1e-5, number, true));
      seen += sample.debt() > 0;
    }
    EXPECT_GT(seen, 0) << last;
  }
}

// A row of an embedding that is zero where the sample looks owes what waits for it all the same.
TEST(Sample, only_a_vector_that_is_zero_everywhere_owes_nothing) {
  std::vector<float> x(4096), waits(4096, 1.0f), other(4096, 1.0f);
  const auto bytes = [](const std::vector<float>& v) { return reinterpret_cast<const std::byte*>(v.data()); };
  const std::vector<SampledVector> vectors{{bytes(x), x.size(), bytes(waits), false, true},
                                           {bytes(other), other.size(), nullptr, false, true}};
  Sample sample;
  ASSERT_TRUE(sample.take(vectors, kernels::Element::f32, 1e-5, 1, true));
  EXPECT_EQ(sample.debt(), 0);
  int owing = 0;
  for (std::size_t i = 0; i < x.size(); i += 512) {
    std::fill(x.begin(), x.end(), 0.0f);
    x[i] = 1;
    ASSERT_TRUE(sample.take(vectors, kernels::Element::f32, 1e-5, 1, true));
    owing += sample.debt() > 0;
  }
  EXPECT_EQ(owing, 8);
}

// By chance their sum may be shorter than usual: by 1.5 for 64 elements.
TEST(Sample, the_error_of_a_vector_of_a_group_is_taken_to_be_greater_also_if_it_is_alone) {
  const auto x = test::make_input<float>(test::Input::normal, 64, 1);
  const auto error = [&](const SampledVector& vector) {
    Sample sample;
    EXPECT_TRUE(sample.take(std::span(&vector, 1), kernels::Element::f32, 1, 0, true));
    return sample.try_on(candidate("int8"), kernels::Isa::scalar, true).error;
  };
  EXPECT_NEAR(error(of_group(x)) / error(sampled(x)), 1.5F, 0.1F);
}

TEST(Sample, bytes_of_several_vectors_are_those_of_all_elements) {
  std::vector<float> zeros(90000), dense = test::make_input<float>(test::Input::normal, 10000, 1);
  Sample sample;
  const SampledVector vectors[]{sampled(dense), sampled(zeros)};
  ASSERT_TRUE(sample.take(vectors, kernels::Element::f32, 0, 1, true));
  EXPECT_NEAR(sample.try_on(candidate("zerorun"), kernels::Isa::scalar, true).wire_bytes, 0.4, 0.1);
  EXPECT_FALSE(sample.take({}, kernels::Element::f32, 1, 1, true));
}

}  // namespace
}  // namespace mq
