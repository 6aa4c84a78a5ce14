// The public functions of sparse reductions under real MPI: against the oracle, with calls in flight around
// them. The engines below are tested over many more shapes with threads as ranks (kylix_test, union_test).

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/sparse/sparse_case.hpp"

namespace mq::test {
namespace {

TEST_F(Sparse, union_is_the_reduction_of_all_lists_by_every_algorithm) {
  for (const std::string& algorithm : kAlgorithms)
    for (const Spread spread : kSpreads)
      for (const std::uint64_t count : {0, 1, 300, 9000}) {
        expect_union<float>({spread, 10000, count}, algorithm);
        if (HasFatalFailure()) return;
      }
}

TEST_F(Sparse, union_takes_doubles_strides_and_all_operations) {
  for (const std::string& algorithm : kAlgorithms)
    for (const MPI_Op op : {MPI_SUM, MPI_MIN, MPI_MAX}) {
      expect_union<double>({Spread::power_law, 5000, 400, 3, op, 5}, algorithm);
      if (HasFatalFailure()) return;
    }
}

// By "auto" often enough for all algorithms to be tried, in vectors of two kinds in turns.
TEST_F(Sparse, union_has_the_same_bits_on_all_ranks) {
  const Case cases[] = {{Spread::correlated, 20000, 3000}, {Spread::uniform, 300, 200}};
  for (const std::string& algorithm : kAlgorithms)
    for (int call = 0; call < (algorithm == "auto" ? 40 : 2); ++call) {
      const Case& c = cases[call % 2];
      const std::vector<std::int64_t> at = indices(c, rank);
      const std::vector<float> v = values<float>(c, rank, ValueKind::reals);
      const auto n = static_cast<MPI_Count>(c.size);
      std::vector<float> dense(c.size);
      ASSERT_EQ(MPIQ_Sparse_allreduce_union(static_cast<MPI_Count>(at.size()), at.data(), v.data(), n, n,
                                            nullptr, dense.data(), nullptr, 1, MPI_FLOAT, MPI_SUM, comm,
                                            Info{{"mpiq_algorithm", algorithm}}),
                MPI_SUCCESS);
      EXPECT_TRUE(same_on_all_ranks(dense)) << algorithm;
    }
}

TEST_F(Sparse, each_rank_gets_the_indices_it_asks_for) {
  for (const Spread spread : kSpreads)
    for (const MPI_Op op : {MPI_SUM, MPI_MIN, MPI_MAX})
      for (const std::uint64_t count : {0, 1, 700}) {
        const Case c{spread, 8000, count, count == 1 ? 3 : 1, op, 9};
        const std::vector<std::int64_t> in = wanted(c);
        std::vector<double> got;
        ASSERT_EQ(reduce(c, indices(c, rank), values<double>(c, rank), in, got, MPI_INFO_NULL), MPI_SUCCESS);
        expect_wanted(c, in, got);
        if (HasFatalFailure()) return;
      }
}

TEST_F(Sparse, duplicates_and_any_order_are_reduced_as_they_stand) {
  const Case c{Spread::uniform, 4000, 600};
  std::vector<std::int64_t> out = indices(c, rank);
  std::vector<float> v = values<float>(c, rank);
  // Each entry as two halves, the second ones after all first ones and backwards.
  const std::size_t n = out.size();
  for (std::size_t i = n; i > 0; --i) {
    out.push_back(out[i - 1]);
    v.push_back(v[i - 1]);
  }
  const std::vector<std::int64_t> in = wanted(c);
  std::vector<float> got;
  ASSERT_EQ(reduce(c, out, v, in, got, MPI_INFO_NULL), MPI_SUCCESS);
  expect_wanted(c, in, got, 2);
}

TEST_F(Sparse, unchanged_lists_are_recognised_and_changed_ones_too) {
  Case c{Spread::power_law, 50000, 4000};
  const Info info{{"mpiq_key", "layer"}};
  std::uint64_t first = 0;
  for (int call = 0; call < 4; ++call) {
    if (call == 3) c.seed = 2;  // other lists
    const std::vector<std::int64_t> in = wanted(c);
    std::vector<float> got;
    const std::uint64_t before = stats().wire_bytes_sent;
    ASSERT_EQ(reduce(c, indices(c, rank), values<float>(c, rank), in, got, info), MPI_SUCCESS);
    expect_wanted(c, in, got);
    const std::uint64_t sent = stats().wire_bytes_sent - before;
    if (call == 0) first = sent;
    if (size > 1 && (call == 1 || call == 2)) {
      EXPECT_LT(sent, first) << "call " << call;
    }
  }
  // Only the last rank's lists change.
  if (rank == size - 1) c.seed = 3;
  const std::vector<std::int64_t> in{0, 1, 2, 3};
  std::vector<float> got;
  std::vector<std::int64_t> out = indices(c, rank);
  std::vector<float> ones(out.size(), 1);
  ASSERT_EQ(reduce(c, out, ones, in, got, info), MPI_SUCCESS);
  std::vector<double> holders(4), all(4);
  for (const std::int64_t index : out)
    if (index < 4) holders[static_cast<std::size_t>(index)] = 1;
  MPI_Allreduce(holders.data(), all.data(), 4, MPI_DOUBLE, MPI_SUM, comm);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(static_cast<double>(got[i]), all[i]) << i;
}

TEST_F(Sparse, a_persistent_reduction_sends_new_values_of_the_same_lists) {
  for (const Spread spread : {Spread::power_law, Spread::uniform, Spread::disjoint}) {
    const Case c{spread, 8000, 900, 2};
    const std::vector<std::int64_t> out = indices(c, rank), in = wanted(c);
    const std::vector<double> first = values<double>(c, rank);
    std::vector<double> v = first, got(in.size() * 2);
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    ASSERT_EQ(MPIQ_Sparse_allreduce_init(static_cast<MPI_Count>(out.size()), out.data(), v.data(),
                                         static_cast<MPI_Count>(in.size()), in.data(), got.data(), 2,
                                         MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request),
              MPI_SUCCESS);
    for (int run = 1; run <= 5; ++run) {
      ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
      if (run % 2) {
        int done = 0;
        while (!done) ASSERT_EQ(MPIQ_Test(&request, &done), MPI_SUCCESS);
      } else {
        ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      }
      expect_wanted(c, in, got, run);
      for (std::size_t i = 0; i < v.size(); ++i) v[i] = (run + 1) * first[i];
    }
    ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
    EXPECT_EQ(request, MPIQ_REQUEST_NULL);
  }
}

TEST_F(Sparse, calls_in_flight_and_sparse_ones_help_each_other_on) {
  const Case c{Spread::uniform, 8000, 900};
  const std::vector<std::int64_t> out = indices(c, rank), in = wanted(c);
  std::vector<float> v = values<float>(c, rank), got(in.size());
  MPIQ_Request persistent = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Sparse_allreduce_init(static_cast<MPI_Count>(out.size()), out.data(), v.data(),
                                       static_cast<MPI_Count>(in.size()), in.data(), got.data(), 1, MPI_FLOAT,
                                       MPI_SUM, comm, MPI_INFO_NULL, &persistent),
            MPI_SUCCESS);
  const std::vector<float> x(300000, 0.5F);
  for (int round = 0; round < 3; ++round) {
    std::vector<float> compressed(x.size()), exact(x.size()), dense(c.size);
    MPIQ_Request requests[2]{};
    ASSERT_EQ(MPIQ_Start(&persistent), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Iallreduce(x.data(), compressed.data(), 300000, MPI_FLOAT, MPI_SUM, comm,
                              Info{{"mpiq_method", "onebit"}}, &requests[0]),
              MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Iallreduce(x.data(), exact.data(), 300000, MPI_FLOAT, MPI_SUM, comm,
                              Info{{"mpiq_method", "mpi"}}, &requests[1]),
              MPI_SUCCESS);
    // Ranks wait in different orders around a blocking call, which itself may end in MPI's own reduction.
    if (rank % 2) {
      ASSERT_EQ(MPIQ_Wait(&requests[0]), MPI_SUCCESS);
    }
    ASSERT_EQ(MPIQ_Sparse_allreduce_union(static_cast<MPI_Count>(out.size()), out.data(), v.data(), 8000,
                                          8000, nullptr, dense.data(), nullptr, 1, MPI_FLOAT, MPI_SUM, comm,
                                          Info{{"mpiq_algorithm", round % 2 ? "dense" : "split"}}),
              MPI_SUCCESS);
    if (rank % 2 == 0) {
      ASSERT_EQ(MPIQ_Wait(&requests[0]), MPI_SUCCESS);
    }
    ASSERT_EQ(MPIQ_Wait(&requests[1]), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&persistent), MPI_SUCCESS);
    expect_wanted(c, in, got);
    for (const float y : compressed) ASSERT_EQ(y, 0.5F * static_cast<float>(size));
    for (const float y : exact) ASSERT_EQ(y, 0.5F * static_cast<float>(size));
  }
  ASSERT_EQ(MPIQ_Request_free(&persistent), MPI_SUCCESS);
}

TEST_F(Sparse, degrees_are_checked_and_give_the_same_sums) {
  const Case c{Spread::power_law, 8000, 900};
  const std::vector<std::int64_t> in = wanted(c);
  const std::string direct = std::to_string(size);
  std::vector<float> got;
  ASSERT_EQ(reduce(c, indices(c, rank), values<float>(c, rank), in, got, Info{{"mpiq_degrees", direct}}),
            MPI_SUCCESS);
  expect_wanted(c, in, got);
  if (size == 4 || size == 5) {
    ASSERT_EQ(reduce(c, indices(c, rank), values<float>(c, rank), in, got, Info{{"mpiq_degrees", "2x2"}}),
              MPI_SUCCESS);
    expect_wanted(c, in, got);
  }
  const std::string too_many = std::to_string(2 * size) + "x3";
  expect_error_everywhere(
      reduce(c, indices(c, rank), values<float>(c, rank), in, got, Info{{"mpiq_degrees", too_many}}),
      "degrees");
}

TEST_F(Sparse, replicas_bring_the_same_and_get_the_same) {
  if (size % 2) return;
  const Case c{Spread::uniform, 5000, 700};
  const int half = size / 2, twin = rank % half;
  const std::vector<std::int64_t> out = indices(c, twin);
  std::vector<float> v = values<float>(c, twin), got(out.size());
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Sparse_allreduce_init(static_cast<MPI_Count>(out.size()), out.data(), v.data(),
                                       static_cast<MPI_Count>(out.size()), out.data(), got.data(), 1,
                                       MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_replicas", "2"}}, &request),
            MPI_SUCCESS);
  std::map<std::int64_t, double> sums;
  for (int r = 0; r < half; ++r) {
    const std::vector<std::int64_t> at = indices(c, r);
    const std::vector<float> of = values<float>(c, r);
    for (std::size_t i = 0; i < at.size(); ++i) sums[at[i]] += static_cast<double>(of[i]);
  }
  for (int run = 0; run < 20; ++run) {
    std::fill(got.begin(), got.end(), -1.0F);
    ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(static_cast<double>(got[i]), sums[out[i]]);
  }
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
}

TEST_F(Sparse, sums_of_nan_and_infinity_are_what_mpi_would_make_of_them) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::int64_t> at{0, 3, 5, 9};
  const std::vector<float> v{rank == 0 ? kNan : 1.0F, rank == 0 ? kInf : 1.0F, rank == 0 ? -kInf : kInf,
                             -0.0F};
  for (const std::string& algorithm : kAlgorithms) {
    std::vector<float> dense(10);
    ASSERT_EQ(MPIQ_Sparse_allreduce_union(4, at.data(), v.data(), 10, 10, nullptr, dense.data(), nullptr, 1,
                                          MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_algorithm", algorithm}}),
              MPI_SUCCESS);
    EXPECT_TRUE(std::isnan(dense[0])) << algorithm;
    EXPECT_EQ(dense[3], kInf) << algorithm;
    EXPECT_TRUE(size == 1 ? dense[5] == -kInf : std::isnan(dense[5])) << algorithm;
    EXPECT_EQ(dense[9], 0.0F) << algorithm;
    EXPECT_EQ(dense[1], 0.0F) << algorithm;
    // In minimum and maximum a NaN wins on whichever side it is.
    for (const MPI_Op op : {MPI_MIN, MPI_MAX})
      for (int nan_on = 0; nan_on < size; ++nan_on) {
        const std::vector<float> one(4, rank == nan_on ? kNan : 2.0F);
        ASSERT_EQ(
            MPIQ_Sparse_allreduce_union(4, at.data(), one.data(), 10, 10, nullptr, dense.data(), nullptr, 1,
                                        MPI_FLOAT, op, comm, Info{{"mpiq_algorithm", algorithm}}),
            MPI_SUCCESS);
        EXPECT_TRUE(std::isnan(dense[3])) << algorithm << " on rank " << nan_on;
      }
  }
}

TEST_F(Sparse, the_lists_of_a_key_are_kept_until_they_are_forgotten) {
  if (size == 1) return;
  const Case c{Spread::uniform, 1000, 100};
  const std::vector<std::int64_t> at = indices(c, rank);
  const std::vector<float> v = values<float>(c, rank);
  const std::vector<std::int64_t> in = wanted(c);
  // Bytes that a call of the key sends.
  const auto sent = [&](const std::string& key) {
    const std::uint64_t before = stats().wire_bytes_sent;
    std::vector<float> got;
    const int code = reduce(c, at, v, in, got, Info{{"mpiq_key", key}});
    EXPECT_EQ(code, MPI_SUCCESS) << key << ": " << text_of(code);
    expect_wanted(c, in, got);
    return stats().wire_bytes_sent - before;
  };
  const std::uint64_t lists = sent("a"), values_only = sent("a");
  ASSERT_LT(values_only, lists);
  EXPECT_EQ(sent("a"), values_only);
  // Forgotten on one rank alone they are sent by all.
  if (rank == 0) {
    ASSERT_EQ(MPIQ_Residual_reset(comm, "a"), MPI_SUCCESS);
  }
  EXPECT_GT(sent("a"), values_only);
  EXPECT_EQ(sent("a"), values_only);
  ASSERT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS);
  EXPECT_GT(sent("a"), values_only);
  // 256 keys are kept, those used last.
  EXPECT_GT(sent("b"), values_only);
  for (int i = 0; i < 255; ++i) {
    (void)sent("key " + std::to_string(i));
    if (i == 100) {
      EXPECT_EQ(sent("a"), values_only);
    }
  }
  EXPECT_EQ(sent("a"), values_only);
  EXPECT_GT(sent("b"), values_only) << "not used for longest";
}

}  // namespace
}  // namespace mq::test
