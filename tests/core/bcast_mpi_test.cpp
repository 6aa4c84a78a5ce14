// MPIQ_Bcast under MPI: identical bits near the root's vector, every root, both plans, what waits in
// residuals, policies, and bad input.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

// Less than 8 KiB of encoded elements go down a tree; more are spread.
constexpr std::size_t kInTree = 4000, kSpread = 100001;

class Broadcast : public Api {
 protected:
  // The root's vector as it was, on all ranks.
  template <class T>
  std::vector<T> of_root(std::vector<T> x, int root) const {
    MPI_Bcast(x.data(), static_cast<int>(x.size() * sizeof(T)), MPI_BYTE, root, comm);
    return x;
  }
  template <class T>
  int bcast(std::vector<T>& x, int root, MPI_Info info) const {
    return MPIQ_Bcast(x.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), root, comm, info);
  }
};

TEST_F(Broadcast, every_codec_gives_all_ranks_the_same_bits_near_the_root_s_vector) {
  const auto check = [&]<class T>(T) {
    for (const kernels::Codec& codec : kernels::codecs())
      for (const std::size_t n : {std::size_t{1}, kInTree, kSpread})
        for (const int root : {0, size - 1}) {
          std::vector<T> x = input<T>(n);
          const std::vector<T> wanted = of_root(x, root);
          ASSERT_EQ(bcast(x, root, Info{{"mpiq_method", std::string(codec.name)}}), MPI_SUCCESS)
              << codec.name;
          EXPECT_TRUE(same_on_all_ranks(x)) << codec.name;
          // A codec without bias may lose more than by sending nothing.
          EXPECT_LE(norm(x, wanted), 2 * loss(codec) * norm(wanted, std::vector<T>(n))) << codec.name;
          if (codec.name == "raw" || size == 1) {
            EXPECT_TRUE(same_bits(x, wanted)) << codec.name;
          }
        }
  };
  check(float{});
  if (size <= 3) check(double{});
}

TEST_F(Broadcast, every_root_and_what_is_counted) {
  const Info info{{"mpiq_method", "int8"}};
  for (const std::size_t n : {kInTree, kSpread})
    for (int turn = 0; turn < 2; ++turn)
      for (int root = 0; root < size; ++root) {
        std::vector<float> x = input<float>(n);
        const std::vector<float> wanted = of_root(x, root);
        const std::uint64_t before = stats().wire_bytes_sent;
        ASSERT_EQ(bcast(x, root, info), MPI_SUCCESS);
        EXPECT_TRUE(same_on_all_ranks(x));
        EXPECT_LE(relative_error(x, wanted), 0.02) << root;
        EXPECT_EQ(same_bits(x, wanted), size == 1) << "the root, too, has what the others have";
        const std::uint64_t sent = stats().wire_bytes_sent - before;
        if (n == kSpread && size > 2) {
          EXPECT_LE(sent, n + n / 10 + 5000) << "no rank sends more than one encoded vector";
        }
        if (size == 2) {
          EXPECT_EQ(sent > 0, rank == root) << "only the root sends, except for the agreement";
        }
      }
  EXPECT_EQ(stats().compressed_calls, size > 1 ? static_cast<std::uint64_t>(4 * size) : 0u);
}

TEST_F(Broadcast, half_types_with_and_without_a_method) {
  for (const auto& [half, type_of] : {std::pair{kernels::Element::f16, &MPIQ_Type_float16},
                                      std::pair{kernels::Element::bf16, &MPIQ_Type_bfloat16}}) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    ASSERT_EQ(type_of(&type), MPI_SUCCESS);
    const std::vector<float> values = input<float>(3000);
    std::vector<std::uint16_t> x(values.size());
    kernels::convert(half, kernels::Isa::scalar)->narrow(values.data(), x.data(), nullptr, x.size());
    const std::vector<std::uint16_t> exact = of_root(x, size - 1);
    std::vector<std::uint16_t> y = x, z = x;
    ASSERT_EQ(MPIQ_Bcast(y.data(), 3000, type, size - 1, comm, MPI_INFO_NULL), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(y, exact)) << "MPI's own";
    ASSERT_EQ(MPIQ_Bcast(z.data(), 3000, type, size - 1, comm, Info{{"mpiq_method", "int8"}}), MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(z));
    std::vector<float> wide(z.size()), wanted(z.size());
    kernels::convert(half, kernels::Isa::scalar)->widen(z.data(), wide.data(), z.size());
    kernels::convert(half, kernels::Isa::scalar)->widen(exact.data(), wanted.data(), z.size());
    EXPECT_LE(relative_error(wide, wanted), 0.02);
  }
}

// The deltas that arrived and what still waits, which a broadcast by raw delivers, add up to the deltas.
TEST_F(Broadcast, with_a_key_deltas_arrive_in_the_end) {
  // threshold with a quantile settles a parameter with the key, which only the root keeps.
  for (const char* const method : {"onebit", "topk", "int8", "threshold(quantile=0.9)"})
    for (const std::size_t n : {kInTree, kSpread}) {
      const std::string key = std::string(method) + std::to_string(n);
      const int root = size / 2;
      std::vector<double> got(n), wanted(n);
      double magnitude = 0;
      for (int step = 0; step < 6; ++step) {
        std::vector<float> x = input<float>(n);
        for (float& v : x) v = step == 5 ? 0 : v * static_cast<float>(step + 1);
        const std::vector<float> sent = of_root(x, root);
        ASSERT_EQ(bcast(x, root, Info{{"mpiq_method", step == 5 ? "raw" : method}, {"mpiq_key", key}}),
                  MPI_SUCCESS);
        EXPECT_TRUE(same_on_all_ranks(x));
        for (std::size_t i = 0; i < n; ++i) {
          got[i] += static_cast<double>(x[i]);
          wanted[i] += static_cast<double>(sent[i]);
        }
        magnitude += norm(sent, std::vector<float>(n));
      }
      EXPECT_LE(norm(got, wanted), 1e-5 * magnitude) << key;
      EXPECT_EQ(stats().residual_bytes > 0, rank == root && size > 1) << "on the root alone";
      int listed = -1;
      ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &listed), MPI_SUCCESS);
      EXPECT_EQ(listed, 0) << "of one rank alone, so not in the list";
      ASSERT_EQ(MPIQ_Residual_reset(comm, key.c_str()), MPI_SUCCESS);
      EXPECT_EQ(stats().residual_bytes, 0u) << "forgotten";
    }
}

TEST_F(Broadcast, random_numbers_differ_from_call_to_call_but_not_from_rank_to_rank) {
  if (size == 1) return;
  std::vector<float> x = of_root(input<float>(kSpread), 0), y = x;
  const Info info{{"mpiq_method", "qsgd"}};
  ASSERT_EQ(bcast(x, 0, info), MPI_SUCCESS);
  ASSERT_EQ(bcast(y, 0, info), MPI_SUCCESS);
  EXPECT_TRUE(same_on_all_ranks(x));
  EXPECT_TRUE(same_on_all_ranks(y));
  EXPECT_FALSE(same_bits(x, y));
}

TEST_F(Broadcast, what_no_codec_serves_is_mpi_s_own) {
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "0-: onebit; allgather 0-: onebit"), MPI_SUCCESS);
  std::vector<float> x = input<float>(kInTree);
  const std::vector<float> wanted = of_root(x, 0);
  ASSERT_EQ(bcast(x, 0, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(x, wanted)) << "rules for other collectives";
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "bcast 0-: onebit"), MPI_SUCCESS);
  std::vector<int> whole{rank, 7 * rank};
  ASSERT_EQ(MPIQ_Bcast(whole.data(), 2, MPI_INT, size - 1, comm, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_EQ(whole, (std::vector<int>{size - 1, 7 * (size - 1)}));
  MPI_Datatype every_second = MPI_DATATYPE_NULL;
  MPI_Type_vector(100, 1, 2, MPI_FLOAT, &every_second);
  MPI_Type_commit(&every_second);
  std::vector<float> gaps = input<float>(200);
  const std::vector<float> mine = gaps, theirs = of_root(gaps, 0);
  ASSERT_EQ(MPIQ_Bcast(gaps.data(), 1, every_second, 0, comm, MPI_INFO_NULL), MPI_SUCCESS);
  for (std::size_t i = 0; i < gaps.size(); ++i) ASSERT_EQ(gaps[i], (i % 2 == 0 ? theirs : mine)[i]) << i;
  MPI_Type_free(&every_second);
  ASSERT_EQ(MPIQ_Bcast(nullptr, 0, MPI_FLOAT, 0, comm, MPI_INFO_NULL), MPI_SUCCESS);
  float alone = 3;
  EXPECT_EQ(MPIQ_Bcast(&alone, 1, MPI_FLOAT, 0, MPI_COMM_SELF, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_EQ(alone, 3);
  EXPECT_EQ(stats().compressed_calls, 0u);
  ASSERT_EQ(bcast(x, 0, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_EQ(stats().compressed_calls, size > 1 ? 1u : 0u);
  EXPECT_EQ(same_bits(x, wanted), size == 1);
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, ""), MPI_SUCCESS);
}

TEST_F(Broadcast, an_intercommunicator_is_left_to_mpi) {
  if (size == 1) return;
  MPI_Comm mine = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank == 0 ? 0 : 1, rank, &mine);
  MPI_Intercomm_create(mine, 0, comm, rank == 0 ? 1 : 0, 5, &inter);
  std::vector<float> x(3000, static_cast<float>(rank + 1));
  EXPECT_EQ(
      MPIQ_Bcast(x.data(), 3000, MPI_FLOAT, rank == 0 ? MPI_ROOT : 0, inter, Info{{"mpiq_method", "int8"}}),
      MPI_SUCCESS);
  EXPECT_EQ(x, std::vector<float>(3000, 1.0F));
  MPI_Comm_free(&inter);
  MPI_Comm_free(&mine);
}

TEST_F(Broadcast, bad_arguments_and_calls_that_differ_are_errors_on_all_ranks) {
  float one = 1;
  EXPECT_NE(MPIQ_Bcast(&one, 1, MPI_FLOAT, 1, MPI_COMM_SELF, MPI_INFO_NULL), MPI_SUCCESS) << "no such rank";
  if (size == 1) return;
  const Info int8{{"mpiq_method", "int8"}};
  const bool odd = rank == size - 1;
  std::vector<float> x = input<float>(2000), y(2000);
  const auto call = [&](void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Info info) {
    return MPIQ_Bcast(buffer, count, type, root, comm, info);
  };
  expect_error_everywhere(call(x.data(), 2000, MPI_FLOAT, odd ? 1 : 0, int8), "root 1");
  expect_error_everywhere(call(x.data(), 2000, MPI_FLOAT, odd ? 1 : 0, MPI_INFO_NULL), "root 0");
  expect_error_everywhere(call(x.data(), 2000, MPI_FLOAT, odd ? size : 0, int8),
                          odd ? "is no rank" : "invalid argument");
  expect_error_everywhere(call(x.data(), 2000, MPI_FLOAT, odd ? -1 : 0, int8),
                          odd ? "root -1" : "invalid argument");
  expect_error_everywhere(call(x.data(), odd ? 1999 : 2000, MPI_FLOAT, 0, int8), "count 1999");
  expect_error_everywhere(call(x.data(), odd ? -1 : 2000, MPI_FLOAT, 0, int8),
                          odd ? "negative" : "invalid argument");
  expect_error_everywhere(call(x.data(), odd ? 1000 : 2000, odd ? MPI_DOUBLE : MPI_FLOAT, 0, int8), "f64");
  expect_error_everywhere(call(odd ? nullptr : x.data(), 2000, MPI_FLOAT, 0, int8),
                          odd ? "buffer is NULL" : "invalid argument");
  expect_error_everywhere(call(x.data(), 2000, MPI_FLOAT, 0, Info{{"mpiq_method", odd ? "bf16" : "int8"}}),
                          "bf16");
  expect_error_everywhere(call(x.data(), 2000, MPI_FLOAT, 0, Info{{"mpiq_method", "int8/direct"}}),
                          "plan of its own");
  expect_error_everywhere(call(x.data(), 2000, MPI_FLOAT, 0, Info{{"mpiq_method", "topk memory=momentum"}}),
                          "serves allreduce only");
  // Ranks in different functions, compressed or not.
  for (const Info& info : {Info{{"mpiq_method", "int8"}}, Info{}})
    expect_error_everywhere(odd ? MPIQ_Allreduce(x.data(), y.data(), 2000, MPI_FLOAT, MPI_SUM, comm, info)
                                : call(x.data(), 2000, MPI_FLOAT, 0, info),
                            "MPIQ_Bcast");
  EXPECT_EQ(call(x.data(), 2000, MPI_FLOAT, 0, int8), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::test
