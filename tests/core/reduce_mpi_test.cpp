// MPIQ_Reduce under MPI: the sum at the root, buffers of the others, every root, both plans, what waits in
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

// Less than 8 KiB of encoded elements go up a tree; of more, owners add slices.
constexpr std::size_t kInTree = 4000, kByOwners = 100001;

class ToRoot : public Api {
 protected:
  template <class T>
  std::vector<T> exact(const std::vector<T>& x) const {
    std::vector<T> sum(x.size());
    MPI_Allreduce(x.data(), sum.data(), static_cast<int>(x.size()), mpi_type<T>(), MPI_SUM, comm);
    return sum;
  }
  template <class T>
  int reduce(const std::vector<T>& x, std::vector<T>& y, int root, MPI_Info info) const {
    return MPIQ_Reduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), MPI_SUM, root,
                       comm, info);
  }
};

TEST_F(ToRoot, every_codec_gives_the_root_a_sum_and_touches_no_buffer_of_others) {
  const auto check = [&]<class T>(T) {
    for (const kernels::Codec& codec : kernels::codecs())
      for (const std::size_t n : {std::size_t{1}, kInTree, kByOwners})
        for (const int root : {0, size - 1}) {
          const Info info{{"mpiq_method", std::string(codec.name)}};
          const std::vector<T> x = input<T>(n), wanted = exact(x), sevens(n, T{7});
          std::vector<T> y = sevens, in_place = x;
          ASSERT_EQ(reduce(x, y, root, info), MPI_SUCCESS) << codec.name;
          const bool is_root = rank == root;
          ASSERT_EQ(MPIQ_Reduce(is_root ? MPI_IN_PLACE : x.data(), is_root ? in_place.data() : nullptr,
                                static_cast<MPI_Count>(n), mpi_type<T>(), MPI_SUM, root, comm, info),
                    MPI_SUCCESS)
              << codec.name;
          // A codec without bias may lose more than by sending nothing; sums are lost anew on their way.
          const double norms = norms_of_all_ranks(x);
          if (!is_root) {
            EXPECT_TRUE(same_bits(y, sevens)) << codec.name;
            continue;
          }
          EXPECT_LE(norm(y, wanted), 8 * loss(codec) * norms) << codec.name;
          if (repeats(codec)) {
            EXPECT_TRUE(same_bits(y, in_place)) << codec.name;
          }
        }
  };
  check(float{});
  if (size <= 3) check(double{});
}

TEST_F(ToRoot, every_root_and_what_is_counted) {
  const Info info{{"mpiq_method", "int8"}};
  for (const std::size_t n : {kInTree, kByOwners})
    for (int turn = 0; turn < 2; ++turn)
      for (int root = 0; root < size; ++root) {
        const std::vector<float> x = input<float>(n), wanted = exact(x);
        std::vector<float> y(n);
        const std::uint64_t before = stats().wire_bytes_sent;
        ASSERT_EQ(reduce(x, y, root, info), MPI_SUCCESS);
        if (rank == root) {
          EXPECT_LE(relative_error(y, wanted), 0.05) << root;
        }
        const std::uint64_t sent = stats().wire_bytes_sent - before;
        EXPECT_LE(sent, n + n / 10 + 5000) << "no rank sends more than one encoded vector";
        EXPECT_EQ(sent > 0, size > 1 && rank != root) << "the root only decodes";
      }
  EXPECT_EQ(stats().compressed_calls, size > 1 ? static_cast<std::uint64_t>(4 * size) : 0u);
}

TEST_F(ToRoot, half_types_with_and_without_a_method) {
  for (const auto& [half, type_of] : {std::pair{kernels::Element::f16, &MPIQ_Type_float16},
                                      std::pair{kernels::Element::bf16, &MPIQ_Type_bfloat16}}) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    ASSERT_EQ(type_of(&type), MPI_SUCCESS);
    const std::vector<float> values = input<float>(3000);
    std::vector<std::uint16_t> x(values.size()), y(x.size());
    std::vector<float> widened(x.size()), wide(x.size());
    kernels::convert(half, kernels::Isa::scalar)->narrow(values.data(), x.data(), nullptr, x.size());
    kernels::convert(half, kernels::Isa::scalar)->widen(x.data(), widened.data(), x.size());
    const std::vector<float> wanted = exact(widened);
    for (const Info& info : {Info{}, Info{{"mpiq_method", "int8"}}}) {
      ASSERT_EQ(MPIQ_Reduce(x.data(), y.data(), 3000, type, MPI_SUM, size - 1, comm, info), MPI_SUCCESS);
      kernels::convert(half, kernels::Isa::scalar)->widen(y.data(), wide.data(), y.size());
      if (rank == size - 1) {
        EXPECT_LE(relative_error(wide, wanted), 0.05);
      }
    }
    EXPECT_EQ(MPIQ_Reduce(nullptr, nullptr, 0, type, MPI_SUM, 0, comm, MPI_INFO_NULL), MPI_SUCCESS);
  }
}

// What arrived at the roots and what still waits, which a sum by raw delivers, is what was sent. The root
// changes from step to step, and the last call is an allreduce of the same key.
TEST_F(ToRoot, with_a_key_all_arrives_in_the_end_whoever_is_the_root) {
  for (const char* const method : {"onebit", "topk", "int8", "threshold(quantile=0.9)"})
    for (const std::size_t n : {kInTree, kByOwners}) {
      const std::string key = std::string(method) + std::to_string(n);
      std::vector<double> got(n), wanted(n);
      double magnitude = 0;
      for (int step = 0; step < 6; ++step) {
        std::vector<float> x = input<float>(n), y(n);
        for (float& v : x) v = step == 5 ? 0 : v * static_cast<float>(step + 1);
        const int root = step % size;
        const Info info{{"mpiq_method", step == 5 ? "raw" : method}, {"mpiq_key", key}};
        ASSERT_EQ(step == 5 ? MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(n), MPI_FLOAT,
                                             MPI_SUM, comm, info)
                            : reduce(x, y, root, info),
                  MPI_SUCCESS);
        MPI_Bcast(y.data(), static_cast<int>(n), MPI_FLOAT, root, comm);
        const std::vector<float> sum = exact(x);
        for (std::size_t i = 0; i < n; ++i) {
          got[i] += static_cast<double>(y[i]);
          wanted[i] += static_cast<double>(sum[i]);
        }
        magnitude += norms_of_all_ranks(x);
      }
      EXPECT_LE(norm(got, wanted), 1e-5 * magnitude) << key;
      ASSERT_EQ(MPIQ_Residual_reset(comm, key.c_str()), MPI_SUCCESS);
      EXPECT_EQ(stats().residual_bytes, 0u) << "forgotten";
    }
}

TEST_F(ToRoot, what_no_codec_serves_is_mpi_s_own) {
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "0-: onebit; reduce_scatter 0-: onebit"), MPI_SUCCESS);
  const std::vector<float> x = input<float>(kInTree);
  std::vector<float> ours(kInTree), theirs(kInTree);
  const auto same = [&] { return rank != 0 || same_bits(ours, theirs); };
  MPI_Reduce(x.data(), theirs.data(), static_cast<int>(kInTree), MPI_FLOAT, MPI_SUM, 0, comm);
  ASSERT_EQ(reduce(x, ours, 0, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_TRUE(same()) << "rules for other collectives";
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "reduce 0-: onebit"), MPI_SUCCESS);
  MPI_Reduce(x.data(), theirs.data(), static_cast<int>(kInTree), MPI_FLOAT, MPI_MAX, 0, comm);
  ASSERT_EQ(MPIQ_Reduce(x.data(), ours.data(), static_cast<MPI_Count>(kInTree), MPI_FLOAT, MPI_MAX, 0, comm,
                        MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_TRUE(same()) << "MPI_MAX";
  int sum = 0;
  ASSERT_EQ(MPIQ_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, comm, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_EQ(sum, rank == 0 ? size * (size - 1) / 2 : 0);
  float alone = 0;
  EXPECT_EQ(MPIQ_Reduce(x.data(), &alone, 1, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_SELF, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(alone, x[0]);
  EXPECT_EQ(stats().compressed_calls, 0u);
  ASSERT_EQ(reduce(x, ours, 0, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_EQ(stats().compressed_calls, size > 1 ? 1u : 0u);
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, ""), MPI_SUCCESS);
}

TEST_F(ToRoot, an_intercommunicator_is_left_to_mpi) {
  if (size == 1) return;
  MPI_Comm mine = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank == 0 ? 0 : 1, rank, &mine);
  MPI_Intercomm_create(mine, 0, comm, rank == 0 ? 1 : 0, 5, &inter);
  const std::vector<float> x(3000, 1.0F);
  std::vector<float> y(3000);
  EXPECT_EQ(MPIQ_Reduce(x.data(), y.data(), 3000, MPI_FLOAT, MPI_SUM, rank == 0 ? MPI_ROOT : 0, inter,
                        Info{{"mpiq_method", "int8"}}),
            MPI_SUCCESS);
  EXPECT_EQ(y, std::vector<float>(3000, rank == 0 ? static_cast<float>(size - 1) : 0.0F));
  MPI_Comm_free(&inter);
  MPI_Comm_free(&mine);
}

TEST_F(ToRoot, bad_arguments_and_calls_that_differ_are_errors_on_all_ranks) {
  if (size == 1) return;
  const Info int8{{"mpiq_method", "int8"}};
  const bool odd = rank == size - 1;
  std::vector<float> x = input<float>(2000), y(2000);
  const auto call = [&](const void* sendbuf, void* recvbuf, MPI_Count count, int root, MPI_Info info) {
    return MPIQ_Reduce(sendbuf, recvbuf, count, MPI_FLOAT, MPI_SUM, root, comm, info);
  };
  expect_error_everywhere(call(x.data(), y.data(), 2000, odd ? 1 : 0, int8), "root 1");
  expect_error_everywhere(call(x.data(), y.data(), 2000, odd ? size : 0, int8),
                          odd ? "is no rank" : "invalid argument");
  expect_error_everywhere(call(x.data(), y.data(), odd ? 1999 : 2000, 0, int8), "count 1999");
  expect_error_everywhere(call(x.data(), y.data(), odd ? -1 : 2000, 0, int8),
                          odd ? "negative" : "invalid argument");
  expect_error_everywhere(call(odd ? nullptr : x.data(), y.data(), 2000, 0, int8),
                          odd ? "sendbuf is NULL" : "invalid argument");
  expect_error_everywhere(call(x.data(), rank == 0 ? nullptr : y.data(), 2000, 0, int8),
                          rank == 0 ? "recvbuf is NULL" : "invalid argument");
  expect_error_everywhere(call(odd ? MPI_IN_PLACE : x.data(), y.data(), 2000, 0, int8),
                          odd ? "not the root" : "invalid argument");
  expect_error_everywhere(call(x.data(), rank == 0 ? x.data() + 5 : y.data(), 1900, 0, int8),
                          rank == 0 ? "overlap" : "invalid argument");
  expect_error_everywhere(call(x.data(), y.data(), 2000, 0, Info{{"mpiq_method", "int8/direct"}}),
                          "plan of its own");
  // Ranks in different functions, compressed or not.
  for (const Info& info : {Info{{"mpiq_method", "int8"}}, Info{}})
    expect_error_everywhere(
        odd ? MPIQ_Bcast(x.data(), 2000, MPI_FLOAT, 0, comm, info) : call(x.data(), y.data(), 2000, 0, info),
        "MPIQ_Reduce:");
  // What stands at recvbuf of others is not looked at.
  EXPECT_EQ(call(x.data(), rank == 0 ? y.data() : MPI_IN_PLACE, 2000, 0, int8), MPI_SUCCESS);
  EXPECT_EQ(call(x.data(), rank == 0 ? y.data() : x.data(), 2000, 0, int8), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::test
