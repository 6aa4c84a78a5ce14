// MPIQ_Reduce_scatter_block and MPIQ_Reduce_scatter under MPI: results of every codec, parts of every shape,
// in place, residuals, policies, and every kind of bad input, which is the same clear error on all ranks.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "mpi_quant.h"
#include "tests/core/parts.hpp"

namespace mq::test {
namespace {

class ReduceScatter : public Parts {
 protected:
  static std::size_t total(const Counts& counts) {
    return static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), MPI_Count{0}));
  }
  std::size_t begin(const Counts& counts) const {
    return static_cast<std::size_t>(std::accumulate(counts.begin(), counts.begin() + rank, MPI_Count{0}));
  }
  template <class T>
  std::vector<T> part(const std::vector<T>& x, const Counts& counts) const {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin(counts));
    return {first, first + static_cast<std::ptrdiff_t>(own(counts))};
  }
  template <class T>
  std::vector<T> exact(const std::vector<T>& x, const Counts& counts) const {
    std::vector<T> sum(x.size());
    MPI_Allreduce(x.data(), sum.data(), static_cast<int>(x.size()), mpi_type<T>(), MPI_SUM, comm);
    return part(sum, counts);
  }
  template <class T>
  int scatter(const std::vector<T>& x, std::vector<T>& y, const Counts& counts, MPI_Info info) const {
    y.resize(own(counts));
    return MPIQ_Reduce_scatter(x.data(), y.data(), counts.data(), mpi_type<T>(), MPI_SUM, comm, info);
  }
  // Of the vectors whose parts these are.
  template <class T>
  double norm_of_parts(const std::vector<T>& a, const std::vector<T>& b) const {
    double mine = std::pow(norm(a, b), 2), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
    return std::sqrt(all);
  }
};

TEST_F(ReduceScatter, every_codec_gives_each_rank_its_part_of_the_sum) {
  const auto check = [&]<class T>(T) {
    for (const kernels::Codec& codec : kernels::codecs())
      for (const Counts& counts : {equal(1), equal(100), uneven(4097), equal(60000)}) {
        const std::string method(codec.name);
        const Info info{{"mpiq_method", method}};
        const std::vector<T> x = input<T>(total(counts));
        std::vector<T> y, in_place = x;
        ASSERT_EQ(scatter(x, y, counts, info), MPI_SUCCESS) << method;
        ASSERT_EQ(MPIQ_Reduce_scatter(MPI_IN_PLACE, in_place.data(), counts.data(), mpi_type<T>(), MPI_SUM,
                                      comm, info),
                  MPI_SUCCESS);
        in_place.resize(own(counts));
        if (repeats(codec) || size == 1) {
          EXPECT_TRUE(same_bits(y, in_place)) << method << " n=" << x.size();
        }
        // A codec without bias may lose more than by sending nothing.
        const double most = 2 * loss(codec) * norms_of_all_ranks(x);
        EXPECT_LE(norm_of_parts(y, exact(x, counts)), most) << method;
        EXPECT_LE(norm_of_parts(in_place, exact(x, counts)), most) << method;
      }
  };
  check(float{});
  if (size <= 3) check(double{});
}

TEST_F(ReduceScatter, equal_parts_by_either_function_have_the_same_bits) {
  const Counts counts = equal(70001);
  const std::vector<float> x = input<float>(total(counts));
  const Info info{{"mpiq_method", "int8"}};
  std::vector<float> y, block(own(counts)), in_place = x;
  ASSERT_EQ(scatter(x, y, counts, info), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Reduce_scatter_block(x.data(), block.data(), counts[0], MPI_FLOAT, MPI_SUM, comm, info),
            MPI_SUCCESS);
  ASSERT_EQ(
      MPIQ_Reduce_scatter_block(MPI_IN_PLACE, in_place.data(), counts[0], MPI_FLOAT, MPI_SUM, comm, info),
      MPI_SUCCESS);
  in_place.resize(block.size());
  EXPECT_TRUE(same_bits(y, block));
  EXPECT_TRUE(same_bits(y, in_place));
  EXPECT_EQ(stats().compressed_calls, size > 1 ? 3u : 0u);
  if (size > 1) {
    EXPECT_LT(stats().wire_bytes_sent, 3 * total(counts) * 2) << "half of the floats' bytes, at most";
  }
}

TEST_F(ReduceScatter, half_types_are_summed_in_float_with_and_without_a_method) {
  for (const auto& [half, type_of] : {std::pair{kernels::Element::f16, &MPIQ_Type_float16},
                                      std::pair{kernels::Element::bf16, &MPIQ_Type_bfloat16}}) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    ASSERT_EQ(type_of(&type), MPI_SUCCESS);
    const kernels::ConvertOps& convert = *kernels::convert(half, kernels::Isa::scalar);
    for (const Info& info : {Info{}, Info{{"mpiq_method", "int8"}}})
      for (const MPI_Count each : {MPI_Count{1}, MPI_Count{3000}}) {
        const Counts counts = equal(each);
        const std::vector<float> ones(total(counts), 0.5F);
        std::vector<std::uint16_t> x(ones.size()), y(own(counts)), in_place;
        convert.narrow(ones.data(), x.data(), nullptr, x.size());
        in_place = x;
        ASSERT_EQ(MPIQ_Reduce_scatter_block(x.data(), y.data(), each, type, MPI_SUM, comm, info),
                  MPI_SUCCESS);
        ASSERT_EQ(MPIQ_Reduce_scatter_block(MPI_IN_PLACE, in_place.data(), each, type, MPI_SUM, comm, info),
                  MPI_SUCCESS);
        in_place.resize(y.size());
        EXPECT_TRUE(same_bits(y, in_place));
        std::vector<float> wide(y.size());
        convert.widen(y.data(), wide.data(), y.size());
        for (const float v : wide)
          ASSERT_NEAR(v, 0.5F * static_cast<float>(size), 0.01F * static_cast<float>(size));
      }
    std::uint16_t x = 1, y = 2;
    EXPECT_EQ(MPIQ_Reduce_scatter_block(&x, &y, 0, type, MPI_SUM, comm, MPI_INFO_NULL), MPI_SUCCESS);
    EXPECT_EQ(y, 2) << "no elements";
  }
}

// Results so far and what still waits add up to the inputs. An allreduce may use the key in between.
TEST_F(ReduceScatter, with_a_key_nothing_is_lost) {
  for (const char* const method : {"onebit", "topk", "bound(abs=0.01)", "int8"})
    for (const Counts& counts : {equal(3001), uneven(5000)}) {
      const std::string key = std::string(method) + std::to_string(total(counts));
      const Info info{{"mpiq_method", method}, {"mpiq_key", key}};
      std::vector<double> wanted(own(counts)), got(own(counts));
      double magnitude = 0;
      for (int step = 0; step < 5; ++step) {
        std::vector<float> x = input<float>(total(counts)), y;
        for (float& v : x) v *= static_cast<float>(step + 1);
        const std::vector<float> sum = exact(x, counts);
        if (step == 3) {
          std::vector<float> all(x.size());
          ASSERT_EQ(MPIQ_Allreduce(x.data(), all.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM,
                                   comm, info),
                    MPI_SUCCESS);
          y = part(all, counts);
        } else {
          ASSERT_EQ(scatter(x, y, counts, info), MPI_SUCCESS);
        }
        for (std::size_t i = 0; i < y.size(); ++i) {
          wanted[i] += static_cast<double>(sum[i]);
          got[i] += static_cast<double>(y[i]);
        }
        magnitude += norms_of_all_ranks(x);
      }
      std::vector<float> waiting(total(counts));
      ASSERT_EQ(MPIQ_Residual_flush(waiting.data(), static_cast<MPI_Count>(waiting.size()), MPI_FLOAT, comm,
                                    key.c_str()),
                MPI_SUCCESS);
      const std::vector<float> mine = part(waiting, counts);
      for (std::size_t i = 0; i < mine.size(); ++i) got[i] += static_cast<double>(mine[i]);
      EXPECT_LE(norm(got, wanted), 1e-5 * magnitude) << key;
    }
}

TEST_F(ReduceScatter, what_no_codec_serves_is_mpi_s_own) {
  const Counts counts = uneven(5000);
  const std::vector<float> x = input<float>(total(counts));
  std::vector<int> ints(counts.begin(), counts.end());
  for (const MPI_Op op : {MPI_SUM, MPI_MAX}) {
    if (op == MPI_MAX) {
      ASSERT_EQ(MPIQ_Comm_set_policy(comm, "reduce_scatter 0-: onebit"), MPI_SUCCESS);
    }
    std::vector<float> ours(own(counts)), theirs(own(counts)), block(50), their_block(50);
    ASSERT_EQ(MPIQ_Reduce_scatter(x.data(), ours.data(), counts.data(), MPI_FLOAT, op, comm, MPI_INFO_NULL),
              MPI_SUCCESS);
    MPI_Reduce_scatter(x.data(), theirs.data(), ints.data(), MPI_FLOAT, op, comm);
    EXPECT_TRUE(same_bits(ours, theirs));
    ASSERT_EQ(MPIQ_Reduce_scatter_block(x.data(), block.data(), 50, MPI_FLOAT, op, comm, MPI_INFO_NULL),
              MPI_SUCCESS);
    MPI_Reduce_scatter_block(x.data(), their_block.data(), 50, MPI_FLOAT, op, comm);
    EXPECT_TRUE(same_bits(block, their_block));
  }
  const std::vector<int> whole(static_cast<std::size_t>(size) * 7, rank);
  std::vector<int> sum(7);
  ASSERT_EQ(MPIQ_Reduce_scatter_block(whole.data(), sum.data(), 7, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(sum[6], size * (size - 1) / 2);
  float alone = 0;
  const float seven = 7;
  EXPECT_EQ(MPIQ_Reduce_scatter_block(&seven, &alone, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(alone, seven);
  EXPECT_EQ(MPIQ_Reduce_scatter_block(&seven, &alone, 0, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(stats().compressed_calls, 0u);
}

TEST_F(ReduceScatter, a_rule_for_one_collective_does_not_reach_the_other) {
  if (size == 1) return;
  std::vector<float> x(static_cast<std::size_t>(size) * 5000, 1.0F), y(5000);
  const auto compressed = [&](const char* rules) {
    EXPECT_EQ(MPIQ_Comm_set_policy(comm, rules), MPI_SUCCESS) << rules;
    const std::uint64_t before = stats().compressed_calls;
    EXPECT_EQ(MPIQ_Reduce_scatter_block(x.data(), y.data(), 5000, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL),
              MPI_SUCCESS);
    const std::uint64_t scattered = stats().compressed_calls - before;
    EXPECT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, y.data(), 5000, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL),
              MPI_SUCCESS);
    return std::pair(scattered, stats().compressed_calls - before - scattered);
  };
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(compressed("0-: int8"), (Pair{0, 1}));
  EXPECT_EQ(compressed("allreduce 0-: int8"), (Pair{0, 1}));
  EXPECT_EQ(compressed("reduce_scatter 0-: int8"), (Pair{1, 0}));
  EXPECT_EQ(compressed("reduce_scatter 0-: int8; 0-: bf16"), (Pair{1, 1}));
  EXPECT_EQ(compressed("reduce_scatter 1G-: int8"), (Pair{0, 0})) << "the whole vector's bytes count";
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, ""), MPI_SUCCESS);
}

// Each of these is an error on every rank, also where one rank alone brings it.
TEST_F(ReduceScatter, bad_arguments_and_calls_that_differ_are_errors_on_all_ranks) {
  if (size == 1) return;
  const std::vector<float> x = input<float>(static_cast<std::size_t>(size) * 1100);
  std::vector<float> y(x.size());
  const auto call = [&](const Counts& counts, const Info& info) {
    return MPIQ_Reduce_scatter(x.data(), y.data(), counts.data(), MPI_FLOAT, MPI_SUM, comm, info);
  };
  const Info int8{{"mpiq_method", "int8"}}, bf16{{"mpiq_method", "bf16"}};
  const bool odd = rank == size - 1;
  Counts negative = equal(1000), other = equal(1000);
  if (odd) negative[0] = -1;
  expect_error_everywhere(call(negative, int8), odd ? "negative" : "invalid argument");
  if (odd) std::swap(other[0] += 7, other[1] -= 7);
  expect_error_everywhere(call(other, int8), "recvcounts");
  expect_error_everywhere(call(equal(odd ? 999 : 1000), int8), "the ranks' calls differ");
  const Counts huge = equal(odd ? std::numeric_limits<MPI_Count>::max() : 1000);
  expect_error_everywhere(call(huge, int8), odd ? "2^58" : "invalid argument");
  expect_error_everywhere(
      MPIQ_Reduce_scatter(x.data(), y.data(), odd ? nullptr : other.data(), MPI_FLOAT, MPI_SUM, comm, int8),
      odd ? "recvcounts is NULL" : "invalid argument");
  expect_error_everywhere(
      MPIQ_Reduce_scatter_block(odd ? nullptr : x.data(), y.data(), 1000, MPI_FLOAT, MPI_SUM, comm, int8),
      odd ? "sendbuf is NULL" : "invalid argument");
  expect_error_everywhere(MPIQ_Reduce_scatter_block(odd ? y.data() + 999 : x.data(), y.data(), 1000,
                                                    MPI_FLOAT, MPI_SUM, comm, int8),
                          odd ? "overlap" : "invalid argument");
  expect_error_everywhere(call(equal(1000), Info{{"mpiq_method", "int8/ring"}}), "plan of its own");
  expect_error_everywhere(call(equal(1000), Info{{"mpiq_method", "topk memory=momentum"}, {"mpiq_key", "m"}}),
                          "memory=momentum serves allreduce only");
  expect_error_everywhere(
      call(equal(1000), Info{{"mpiq_method", "int8"}, {"mpiq_matrix", std::to_string(size) + "x1000"}}),
      "mpiq_matrix");
  expect_error_everywhere(call(equal(1000), odd ? bf16 : int8), "the ranks' calls differ");
  // Ranks in different functions.
  expect_error_everywhere(
      odd ? MPIQ_Reduce_scatter_block(x.data(), y.data(), 1000, MPI_FLOAT, MPI_SUM, comm, int8)
          : call(equal(1000), int8),
      "MPIQ_Reduce_scatter_block");
  expect_error_everywhere(odd ? MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(size) * 1000,
                                               MPI_FLOAT, MPI_SUM, comm, int8)
                              : call(equal(1000), int8),
                          "MPIQ_Allreduce");
  // The same where MPI would make the calls.
  expect_error_everywhere(odd ? MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(size) * 1000,
                                               MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL)
                              : call(equal(1000), Info{}),
                          "MPIQ_Allreduce");
  EXPECT_EQ(call(equal(1000), int8), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::test
