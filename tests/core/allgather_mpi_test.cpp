// MPIQ_Allgather and MPIQ_Allgatherv under MPI: identical bits near the parts, parts of every shape, in
// place, what waits in residuals, policies, and bad input.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
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

using Places = std::vector<MPI_Aint>;

class Allgather : public Parts {
 protected:
  // Parts in reverse order, with `gap` elements before each.
  static Places places(const Counts& counts, MPI_Aint gap) {
    Places at(counts.size());
    MPI_Aint next = 0;
    for (std::size_t r = counts.size(); r-- > 0; next += static_cast<MPI_Aint>(counts[r]))
      at[r] = next += gap;
    return at;
  }
  static std::size_t extent(const Counts& counts, const Places& at) {
    std::size_t end = 0;
    for (std::size_t r = 0; r < at.size(); ++r)
      end = std::max(end, static_cast<std::size_t>(at[r] + static_cast<MPI_Aint>(counts[r])));
    return end;
  }
  template <class T>
  std::vector<T> exact(const std::vector<T>& x, const Counts& counts, const Places& at, T fill) const {
    std::vector<int> n(counts.begin(), counts.end()), displs(at.begin(), at.end());
    std::vector<T> all(extent(counts, at), fill);
    MPI_Allgatherv(x.data(), static_cast<int>(x.size()), mpi_type<T>(), all.data(), n.data(), displs.data(),
                   mpi_type<T>(), comm);
    return all;
  }
};

TEST_F(Allgather, every_codec_gives_all_ranks_the_same_bits_near_the_parts) {
  const auto check = [&]<class T>(T) {
    for (const kernels::Codec& codec : kernels::codecs())
      for (const Counts& counts : {equal(1), equal(100), uneven(4097), equal(60000)})
        for (const MPI_Aint gap : {0, size > 1 ? 5 : 0}) {  // on one rank MPICH 4.0 takes no notice of it
          const Info info{{"mpiq_method", std::string(codec.name)}};
          const std::vector<T> x = input<T>(own(counts));
          const Places at = places(counts, gap);
          const std::vector<T> wanted = exact(x, counts, at, T{-7});
          std::vector<T> y(wanted.size(), T{-7}), in_place = y;
          ASSERT_EQ(MPIQ_Allgatherv(x.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), y.data(),
                                    counts.data(), at.data(), mpi_type<T>(), comm, info),
                    MPI_SUCCESS)
              << codec.name;
          std::copy(x.begin(), x.end(), in_place.begin() + at[static_cast<std::size_t>(rank)]);
          ASSERT_EQ(MPIQ_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place.data(), counts.data(),
                                    at.data(), mpi_type<T>(), comm, info),
                    MPI_SUCCESS);
          EXPECT_TRUE(same_on_all_ranks(y)) << codec.name;
          EXPECT_TRUE(same_on_all_ranks(in_place)) << codec.name;
          if (repeats(codec)) {
            EXPECT_TRUE(same_bits(y, in_place)) << codec.name;
          }
          // A codec without bias may lose more than by sending nothing.
          EXPECT_LE(norm(y, wanted), 2 * loss(codec) * norms_of_all_ranks(x)) << codec.name;
          for (std::size_t i = 0; gap > 0 && i < 5; ++i) ASSERT_EQ(y[i], T{-7}) << "between the parts";
          if (codec.name == "raw") {
            EXPECT_TRUE(same_bits(y, wanted));
          }
        }
  };
  check(float{});
  if (size <= 3) check(double{});
}

TEST_F(Allgather, equal_parts_by_either_function_have_the_same_bits) {
  const Counts counts = equal(70001);
  const std::vector<float> x = input<float>(70001);
  const Info info{{"mpiq_method", "int8"}};
  Places follow;
  for (int r = 0; r < size; ++r) follow.push_back(r * 70001);
  std::vector<float> a(x.size() * static_cast<std::size_t>(size)), b = a, in_place = a;
  ASSERT_EQ(MPIQ_Allgather(x.data(), 70001, MPI_FLOAT, a.data(), 70001, MPI_FLOAT, comm, info), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Allgatherv(x.data(), 70001, MPI_FLOAT, b.data(), counts.data(), follow.data(), MPI_FLOAT,
                            comm, info),
            MPI_SUCCESS);
  std::copy(x.begin(), x.end(), in_place.begin() + follow[static_cast<std::size_t>(rank)]);
  ASSERT_EQ(MPIQ_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place.data(), 70001, MPI_FLOAT, comm, info),
            MPI_SUCCESS);
  EXPECT_TRUE(same_bits(a, b));
  EXPECT_TRUE(same_bits(a, in_place));
  EXPECT_EQ(stats().compressed_calls, size > 1 ? 3u : 0u);
  const std::vector<float> mine(a.begin() + follow[static_cast<std::size_t>(rank)],
                                a.begin() + follow[static_cast<std::size_t>(rank)] + 70001);
  EXPECT_EQ(same_bits(mine, x), size == 1) << "a rank has of its part what the others have";
}

TEST_F(Allgather, half_types_with_and_without_a_method) {
  for (const auto& [half, type_of] : {std::pair{kernels::Element::f16, &MPIQ_Type_float16},
                                      std::pair{kernels::Element::bf16, &MPIQ_Type_bfloat16}}) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    ASSERT_EQ(type_of(&type), MPI_SUCCESS);
    const std::vector<float> values = input<float>(3000);
    std::vector<std::uint16_t> x(values.size()), exact(x.size() * static_cast<std::size_t>(size)), y = exact,
                                                                                                   z = exact;
    kernels::convert(half, kernels::Isa::scalar)->narrow(values.data(), x.data(), nullptr, x.size());
    MPI_Allgather(x.data(), 3000, MPI_UINT16_T, exact.data(), 3000, MPI_UINT16_T, comm);
    ASSERT_EQ(MPIQ_Allgather(x.data(), 3000, type, y.data(), 3000, type, comm, MPI_INFO_NULL), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(y, exact)) << "MPI's own";
    ASSERT_EQ(MPIQ_Allgather(x.data(), 3000, type, z.data(), 3000, type, comm, Info{{"mpiq_method", "int8"}}),
              MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(z));
    std::vector<float> wide(z.size()), wanted(z.size());
    kernels::convert(half, kernels::Isa::scalar)->widen(z.data(), wide.data(), z.size());
    kernels::convert(half, kernels::Isa::scalar)->widen(exact.data(), wanted.data(), z.size());
    EXPECT_LE(relative_error(wide, wanted), 0.02);
  }
}

TEST_F(Allgather, errors_name_the_key_of_the_user) {
  if (size == 1) return;
  const std::vector<float> x = input<float>(3001);
  std::vector<float> y(x.size() * static_cast<std::size_t>(size));
  const Info info{{"mpiq_method", "onebit"}, {"mpiq_key", "z"}};
  for (const MPI_Count n : {3000, 3001}) {
    const int code = MPIQ_Allgather(x.data(), n, MPI_FLOAT, y.data(), n, MPI_FLOAT, comm, info);
    if (n == 3000)
      ASSERT_EQ(code, MPI_SUCCESS);
    else
      expect_error_everywhere(code, "mpiq_key \"z\" belongs to 3000 f32, not to 3001 f32");
  }
}

// The deltas that arrived and what still waits, which a gather by raw delivers, add up to the deltas.
TEST_F(Allgather, with_a_key_deltas_arrive_in_the_end) {
  // threshold with a quantile settles a parameter with the key. A rank without elements has no key to keep
  // it.
  for (const char* const method : {"onebit", "topk", "int8", "threshold(quantile=0.9)"})
    for (const Counts& counts : {equal(3001), uneven(5000)}) {
      const std::string key = std::string(method) + std::to_string(counts[0]);
      const Places at = places(counts, 0);
      std::vector<double> got(extent(counts, at)), wanted(got.size());
      double magnitude = 0;
      for (int step = 0; step < 6; ++step) {
        std::vector<float> x = input<float>(own(counts)), y(got.size());
        for (float& v : x) v = step == 5 ? 0 : v * static_cast<float>(step + 1);
        const std::vector<float> parts = exact(x, counts, at, 0.0F);
        const Info info{{"mpiq_method", step == 5 ? "raw" : method}, {"mpiq_key", key}};
        ASSERT_EQ(MPIQ_Allgatherv(x.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, y.data(),
                                  counts.data(), at.data(), MPI_FLOAT, comm, info),
                  MPI_SUCCESS);
        EXPECT_TRUE(same_on_all_ranks(y));
        for (std::size_t i = 0; i < y.size(); ++i) {
          got[i] += static_cast<double>(y[i]);
          wanted[i] += static_cast<double>(parts[i]);
        }
        magnitude += norms_of_all_ranks(x);
      }
      if (size > 1) {
        EXPECT_LE(norm(got, wanted), 1e-5 * magnitude) << key;
      }
      int listed = -1;
      ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &listed), MPI_SUCCESS);
      EXPECT_EQ(listed, 0) << "of this rank alone, so not in the list";
      ASSERT_EQ(MPIQ_Residual_reset(comm, key.c_str()), MPI_SUCCESS);
      EXPECT_EQ(stats().residual_bytes, 0u) << "forgotten";
    }
}

TEST_F(Allgather, what_no_codec_serves_is_mpi_s_own) {
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "0-: onebit; reduce_scatter 0-: onebit"), MPI_SUCCESS);
  const std::vector<float> x = input<float>(500);
  std::vector<float> ours(500 * static_cast<std::size_t>(size)), theirs = ours;
  ASSERT_EQ(MPIQ_Allgather(x.data(), 500, MPI_FLOAT, ours.data(), 500, MPI_FLOAT, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  MPI_Allgather(x.data(), 500, MPI_FLOAT, theirs.data(), 500, MPI_FLOAT, comm);
  EXPECT_TRUE(same_bits(ours, theirs)) << "rules for other collectives";
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "allgather 0-: onebit"), MPI_SUCCESS);
  std::fill(ours.begin(), ours.end(), 0.0F);
  // One vector of a derived type that the library does not take apart, gathered as floats.
  MPI_Datatype all = MPI_DATATYPE_NULL;
  MPI_Type_vector(500, 1, 1, MPI_FLOAT, &all);
  MPI_Type_commit(&all);
  ASSERT_EQ(MPIQ_Allgather(x.data(), 1, all, ours.data(), 500, MPI_FLOAT, comm, MPI_INFO_NULL), MPI_SUCCESS);
  MPI_Type_free(&all);
  EXPECT_TRUE(same_bits(ours, theirs));
  std::vector<int> ranks(static_cast<std::size_t>(size), -1);
  ASSERT_EQ(MPIQ_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, comm, MPI_INFO_NULL), MPI_SUCCESS);
  for (int r = 0; r < size; ++r) EXPECT_EQ(ranks[static_cast<std::size_t>(r)], r);
  float alone = 0;
  EXPECT_EQ(MPIQ_Allgather(x.data(), 1, MPI_FLOAT, &alone, 1, MPI_FLOAT, MPI_COMM_SELF, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(alone, x[0]);
  EXPECT_EQ(MPIQ_Allgather(x.data(), 0, MPI_FLOAT, ours.data(), 0, MPI_FLOAT, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(stats().compressed_calls, 0u);
  ASSERT_EQ(MPIQ_Allgather(x.data(), 500, MPI_FLOAT, ours.data(), 500, MPI_FLOAT, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(stats().compressed_calls, size > 1 ? 1u : 0u);
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, ""), MPI_SUCCESS);
}

// Addresses inside the type, and elements with gaps: what is sent does not begin at sendbuf.
TEST_F(Allgather, types_that_no_codec_serves_are_not_read_as_vectors) {
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "allgather 0-: onebit"), MPI_SUCCESS);
  const std::vector<float> x = input<float>(500);
  std::vector<float> ours(500 * static_cast<std::size_t>(size)), theirs = ours;
  MPI_Allgather(x.data(), 500, MPI_FLOAT, theirs.data(), 500, MPI_FLOAT, comm);
  MPI_Aint address = 0;
  MPI_Get_address(x.data(), &address);
  const int length = 500;
  MPI_Datatype absolute = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed(1, &length, &address, MPI_FLOAT, &absolute);
  MPI_Type_commit(&absolute);
  ASSERT_EQ(MPIQ_Allgather(MPI_BOTTOM, 1, absolute, ours.data(), 500, MPI_FLOAT, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_TRUE(same_bits(ours, theirs));
  MPI_Type_free(&absolute);
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, ""), MPI_SUCCESS);
  // Half types with gaps, on one rank, where this library copies.
  MPI_Datatype half = MPI_DATATYPE_NULL, strided = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  MPI_Type_vector(100, 1, 2, half, &strided);
  MPI_Type_commit(&strided);
  std::vector<std::uint16_t> from(200), to(100);
  std::iota(from.begin(), from.end(), std::uint16_t{1});
  ASSERT_EQ(MPIQ_Allgather(from.data(), 1, strided, to.data(), 100, half, MPI_COMM_SELF, MPI_INFO_NULL),
            MPI_SUCCESS);
  for (std::size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], from[2 * i]) << i;
  MPI_Type_free(&strided);
}

TEST_F(Allgather, an_intercommunicator_is_left_to_mpi) {
  if (size == 1) return;
  MPI_Comm mine = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank == 0 ? 0 : 1, rank, &mine);
  MPI_Intercomm_create(mine, 0, comm, rank == 0 ? 1 : 0, 5, &inter);
  int others = 0;
  MPI_Comm_remote_size(inter, &others);
  MPI_Datatype half = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  const std::vector<std::uint16_t> x(300, static_cast<std::uint16_t>(rank + 1));
  std::vector<std::uint16_t> y(300 * static_cast<std::size_t>(others)), z = y;
  const Counts counts(static_cast<std::size_t>(others), 300);
  Places at;
  for (int r = 0; r < others; ++r) at.push_back(300 * r);
  const Info info{{"mpiq_method", "int8"}};
  EXPECT_EQ(MPIQ_Allgather(x.data(), 300, half, y.data(), 300, half, inter, info), MPI_SUCCESS);
  EXPECT_EQ(MPIQ_Allgatherv(x.data(), 300, half, z.data(), counts.data(), at.data(), half, inter, info),
            MPI_SUCCESS);
  for (int r = 0; r < others; ++r) {
    const auto sent = static_cast<std::uint16_t>(rank == 0 ? r + 2 : 1);
    EXPECT_EQ(y[300 * static_cast<std::size_t>(r) + 7], sent) << r;
    EXPECT_EQ(z[300 * static_cast<std::size_t>(r) + 7], sent) << r;
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&mine);
}

TEST_F(Allgather, bad_arguments_and_calls_that_differ_are_errors_on_all_ranks) {
  if (size == 1) return;
  const std::vector<float> x = input<float>(1100);
  std::vector<float> y(x.size() * static_cast<std::size_t>(size)), z(1000);
  const Info int8{{"mpiq_method", "int8"}};
  const bool odd = rank == size - 1;
  const auto call = [&](MPI_Count sendcount, const Counts& counts, const Places& at) {
    return MPIQ_Allgatherv(x.data(), sendcount, MPI_FLOAT, y.data(), counts.data(), at.data(), MPI_FLOAT,
                           comm, int8);
  };
  const Counts counts = equal(1000);
  const Places at = places(counts, 0);
  Counts negative = counts, other = counts;
  if (odd) negative[0] = -1;
  expect_error_everywhere(call(1000, negative, at), odd ? "negative" : "invalid argument");
  if (odd) std::swap(other[0] += 7, other[1] -= 7);
  expect_error_everywhere(call(static_cast<MPI_Count>(own(other)), other, at), "recvcounts");
  expect_error_everywhere(call(odd ? 999 : 1000, counts, at), odd ? "sendcount is 999" : "invalid argument");
  Places before = at;
  if (odd) before[0] = -1;
  expect_error_everywhere(call(1000, counts, before), "the ranks' calls differ");
  expect_error_everywhere(MPIQ_Allgather(x.data(), odd ? 4000 : 1000, odd ? MPI_BYTE : MPI_FLOAT, y.data(),
                                         1000, MPI_FLOAT, comm, int8),
                          "the ranks' calls differ");
  expect_error_everywhere(MPIQ_Allgatherv(x.data(), 1000, MPI_FLOAT, y.data(), counts.data(),
                                          odd ? nullptr : at.data(), MPI_FLOAT, comm, int8),
                          odd ? "displs is NULL" : "invalid argument");
  expect_error_everywhere(
      MPIQ_Allgather(x.data(), 1000, MPI_FLOAT, odd ? nullptr : y.data(), 1000, MPI_FLOAT, comm, int8),
      odd ? "recvbuf is NULL" : "invalid argument");
  expect_error_everywhere(
      MPIQ_Allgather(odd ? y.data() + 5 : x.data(), 1000, MPI_FLOAT, y.data(), 1000, MPI_FLOAT, comm, int8),
      odd ? "overlap" : "invalid argument");
  expect_error_everywhere(MPIQ_Allgather(x.data(), 1000, MPI_FLOAT, y.data(), 1000, MPI_FLOAT, comm,
                                         Info{{"mpiq_method", "int8/direct"}}),
                          "plan of its own");
  // Ranks in different functions, compressed or not.
  for (const Info& info : {Info{{"mpiq_method", "int8"}}, Info{}}) {
    expect_error_everywhere(
        odd ? MPIQ_Allgather(x.data(), 1000, MPI_FLOAT, y.data(), 1000, MPI_FLOAT, comm, info)
            : MPIQ_Allgatherv(x.data(), 1000, MPI_FLOAT, y.data(), counts.data(), at.data(), MPI_FLOAT, comm,
                              info),
        "MPIQ_Allgatherv");
    expect_error_everywhere(
        odd ? MPIQ_Allgather(x.data(), 1000, MPI_FLOAT, y.data(), 1000, MPI_FLOAT, comm, info)
            : MPIQ_Reduce_scatter_block(y.data(), z.data(), 1000, MPI_FLOAT, MPI_SUM, comm, info),
        "MPIQ_Reduce_scatter_block");
  }
  EXPECT_EQ(call(1000, counts, at), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::test
