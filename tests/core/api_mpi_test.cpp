// The public interface under real MPI: results, pass-through, policies, residual keys, and every kind of bad
// input, which must be the same clear error on all ranks and leave the communicator usable.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant.h"
#include "mpi_quant/plan/plan.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

TEST_F(Api, every_codec_and_plan_gives_all_ranks_the_same_bits_near_the_sum) {
  // By the triangle inequality each stage adds at most its loss of what it encodes, never more than all norms
  // together. On a ring each rank encodes the sum once more.
  const auto stages_of = [&](const PlanRow& plan) {
    return plan.name == "ring" ? size : 1 + std::ceil(std::log2(size));
  };
  const auto check = [&]<class T>(T) {
    for (const std::size_t n : {1, 3, 100, 4097, 300000}) {
      const std::vector<T> x = input<T>(n);
      std::vector<T> exact(n);
      MPI_Allreduce(x.data(), exact.data(), static_cast<int>(n), mpi_type<T>(), MPI_SUM, comm);
      const double norms = norms_of_all_ranks(x);
      for (const kernels::Codec& codec : kernels::codecs())
        for (const PlanRow& plan : plans()) {
          if (is_swept_elsewhere(plan)) continue;
          const std::string method = std::string(codec.name) + "/" + std::string(plan.name);
          std::vector<T> apart(n), in_place = x;
          const Info info{{"mpiq_method", method}};
          ASSERT_EQ(MPIQ_Allreduce(x.data(), apart.data(), static_cast<MPI_Count>(n), mpi_type<T>(), MPI_SUM,
                                   comm, info),
                    MPI_SUCCESS);
          ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, in_place.data(), static_cast<MPI_Count>(n), mpi_type<T>(),
                                   MPI_SUM, comm, info),
                    MPI_SUCCESS);
          EXPECT_TRUE(same_on_all_ranks(apart)) << method << " n=" << n;
          EXPECT_TRUE(same_on_all_ranks(in_place)) << method << " n=" << n;
          if (repeats(codec)) {
            EXPECT_TRUE(same_bits(apart, in_place)) << method << " n=" << n;
          }
          const double most = loss(codec) * stages_of(plan) * norms;
          EXPECT_LE(norm(in_place, exact), most) << method << " n=" << n;
          EXPECT_LE(norm(apart, exact), most) << method << " n=" << n;
        }
    }
  };
  check(float{});
  if (size <= 4) check(double{});  // MPI itself crawls with more ranks than cores
}

TEST_F(Api, without_a_policy_results_are_those_of_mpi_bit_for_bit) {
  const std::vector<float> x = input<float>(100000);
  std::vector<float> ours(x.size()), theirs(x.size());
  ASSERT_EQ(MPIQ_Allreduce(x.data(), ours.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, comm,
                           MPI_INFO_NULL),
            MPI_SUCCESS);
  MPI_Allreduce(x.data(), theirs.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM, comm);
  EXPECT_TRUE(same_bits(ours, theirs));
  EXPECT_EQ(stats().compressed_calls, 0u);
}

TEST_F(Api, calls_no_codec_can_serve_go_to_mpi) {
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "0-: onebit"), MPI_SUCCESS);
  std::vector<int> i(5000, rank), isum(5000);
  ASSERT_EQ(MPIQ_Allreduce(i.data(), isum.data(), 5000, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_EQ(isum[4999], size * (size - 1) / 2);
  const std::vector<float> x = input<float>(5000);
  std::vector<float> ours(5000), theirs(5000);
  for (const MPI_Op op : {MPI_MAX, MPI_MIN, MPI_PROD}) {
    ASSERT_EQ(MPIQ_Allreduce(x.data(), ours.data(), 5000, MPI_FLOAT, op, comm, MPI_INFO_NULL), MPI_SUCCESS);
    MPI_Allreduce(x.data(), theirs.data(), 5000, MPI_FLOAT, op, comm);
    EXPECT_TRUE(same_bits(ours, theirs));
  }
  ASSERT_EQ(MPIQ_Allreduce(x.data(), ours.data(), 0, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_EQ(MPIQ_Allreduce(x.data(), ours.data(), 5000, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_TRUE(same_bits(ours, x)) << "one rank: the identity";
  EXPECT_EQ(stats().compressed_calls, 0u);
}

TEST_F(Api, the_policy_decides_by_size_and_can_be_changed) {
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "0-64K: mpi; 64K-: onebit"), MPI_SUCCESS);
  std::vector<float> x(32768, 1.0F);
  const auto call = [&](MPI_Count n) {
    return MPIQ_Allreduce(MPI_IN_PLACE, x.data(), n, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL);
  };
  ASSERT_EQ(call(16383), MPI_SUCCESS);
  ASSERT_EQ(call(16384), MPI_SUCCESS);
  const std::uint64_t expected = size > 1 ? 1 : 0;
  EXPECT_EQ(stats().compressed_calls, expected);
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, ""), MPI_SUCCESS);
  ASSERT_EQ(call(32768), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, nullptr), MPI_SUCCESS);
  EXPECT_EQ(stats().compressed_calls, expected);
}

TEST_F(Api, rules_select_by_call_number_and_by_a_name_that_all_ranks_gave) {
  const auto compressed = [&](const char* name, const char* rules, int calls) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_set_name(copy, name);
    EXPECT_EQ(MPIQ_Comm_set_policy(copy, rules), MPI_SUCCESS);
    std::vector<float> x(1000, 1.0F);
    for (int i = 0; i < calls; ++i)
      EXPECT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 1000, MPI_FLOAT, MPI_SUM, copy, MPI_INFO_NULL),
                MPI_SUCCESS);
    MPIQ_Stats stats = MPIQ_STATS_INIT;
    EXPECT_EQ(MPIQ_Comm_get_stats(copy, &stats), MPI_SUCCESS);
    MPI_Comm_free(&copy);
    return stats.compressed_calls;
  };
  if (size == 1) return;
  EXPECT_EQ(compressed("any", "calls=3-5: onebit", 9), 2u);
  EXPECT_EQ(compressed("gradients", "comm=grad*: onebit", 2), 2u);
  EXPECT_EQ(compressed("norms", "comm=grad*: onebit", 2), 0u);
  const std::string own = "gradients of rank " + std::to_string(rank);
  EXPECT_EQ(compressed(own.c_str(), "comm=grad*: onebit", 2), 0u) << "names differ between ranks";
}

TEST_F(Api, a_key_carries_the_error_to_the_next_call) {
  if (size == 1) return;  // exact, nothing to carry
  const std::vector<float> x = input<float>(5000);
  std::vector<float> exact(5000), y(5000);
  MPI_Allreduce(x.data(), exact.data(), 5000, MPI_FLOAT, MPI_SUM, comm);
  std::vector<double> sum(5000);
  const Info info{{"mpiq_method", "onebit"}, {"mpiq_key", "layer 1"}, {"somebody_elses_key", "x"}};
  const int calls = 100;
  double first = 0;
  for (int t = 0; t < calls; ++t) {
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 5000, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
    if (t == 0) first = relative_error(y, exact);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(y[i]);
  }
  std::vector<float> mean(5000);
  for (std::size_t i = 0; i < sum.size(); ++i) mean[i] = static_cast<float>(sum[i] / calls);
  EXPECT_GT(first, 0.3) << "one bit cannot be this good";
  EXPECT_LT(relative_error(mean, exact), first / 4);
  EXPECT_GE(stats().residual_bytes, 5000 * sizeof(float));
}

TEST_F(Api, a_key_used_with_another_count_or_type_is_an_error_on_all_ranks) {
  if (size == 1) return;
  std::vector<double> x(2000, 1.0);
  const Info info{{"mpiq_method", "onebit"}, {"mpiq_key", "w"}};
  ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 2000, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
  expect_error_everywhere(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 1999, MPI_FLOAT, MPI_SUM, comm, info),
                          "\"w\" belongs to 2000 f32");
  expect_error_everywhere(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 2000, MPI_DOUBLE, MPI_SUM, comm, info),
                          "not to 2000 f64");
  EXPECT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 2000, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
  EXPECT_EQ(stats().failed_calls, 2u);
}

TEST_F(Api, bad_info_is_an_error_that_names_key_and_value) {
  std::vector<float> x(2000, 1.0F);
  const auto call = [&](MPI_Info info) {
    return MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 2000, MPI_FLOAT, MPI_SUM, comm, info);
  };
  expect_error_everywhere(call(Info{{"mpiq_metod", "onebit"}}), "mpiq_metod");
  expect_error_everywhere(call(Info{{"mpiq_method", "twobit"}}), "twobit");
  expect_error_everywhere(call(Info{{"mpiq_method", "onebit(block=3)"}}), "block");
  expect_error_everywhere(call(Info{{"mpiq_method", "onebit/nosuch"}}), "nosuch");
  expect_error_everywhere(call(Info{{"mpiq_key", std::string(64, 'k')}}), "1 to 63");
}

TEST_F(Api, bad_info_on_one_rank_is_an_error_on_all) {
  if (size == 1) return;
  std::vector<float> x(2000, 1.0F);
  const Info good{{"mpiq_method", "onebit"}}, bad{{"mpiq_method", "twobit"}};
  const bool odd = rank == size - 1;
  const int code = MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 2000, MPI_FLOAT, MPI_SUM, comm, odd ? bad : good);
  expect_error_everywhere(code, odd ? "twobit" : "unusable info value");
}

TEST_F(Api, calls_that_differ_between_ranks_are_errors_on_all_ranks_and_not_a_hang) {
  if (size == 1) return;
  std::vector<double> x(100000, 1.0);
  const bool odd = rank == size - 1;
  const Info onebit{{"mpiq_method", "onebit"}}, bf16{{"mpiq_method", "bf16"}}, mpi{{"mpiq_method", "mpi"}},
      block{{"mpiq_method", "onebit(block=64)"}}, direct{{"mpiq_method", "onebit/direct"}},
      gather{{"mpiq_method", "onebit/allgather"}}, keyed{{"mpiq_method", "onebit"}, {"mpiq_key", "k"}};
  const auto call = [&](MPI_Count n, MPI_Datatype type, MPI_Info info) {
    return MPIQ_Allreduce(MPI_IN_PLACE, x.data(), n, type, MPI_SUM, comm, info);
  };
  expect_error_everywhere(call(odd ? 1000 : 90000, MPI_FLOAT, onebit), "count 1000 ");
  expect_error_everywhere(call(1000, odd ? MPI_DOUBLE : MPI_FLOAT, onebit), "f64");
  expect_error_everywhere(call(1000, MPI_FLOAT, odd ? bf16 : onebit), "bf16");
  expect_error_everywhere(call(1000, MPI_FLOAT, odd ? mpi : onebit), "mpi");
  expect_error_everywhere(call(1000, MPI_FLOAT, odd ? block : onebit), "parameters");
  expect_error_everywhere(call(1000, MPI_FLOAT, odd ? keyed : onebit), "key");
  expect_error_everywhere(call(1000, MPI_FLOAT, odd ? static_cast<MPI_Info>(onebit) : MPI_INFO_NULL), "mpi");
  if (size > 2) expect_error_everywhere(call(90000, MPI_FLOAT, odd ? direct : gather), "direct");
}

TEST_F(Api, a_null_buffer_on_one_rank_is_an_error_on_all_ranks) {
  if (size == 1) return;
  std::vector<float> x(2000, 1.0F), y(2000);
  const Info info{{"mpiq_method", "onebit"}};
  const bool odd = rank == size - 1;
  int code = MPIQ_Allreduce(x.data(), odd ? nullptr : y.data(), 2000, MPI_FLOAT, MPI_SUM, comm, info);
  expect_error_everywhere(code, odd ? "recvbuf is NULL" : "invalid argument");
  code = MPIQ_Allreduce(odd ? nullptr : x.data(), y.data(), 2000, MPI_FLOAT, MPI_SUM, comm, info);
  expect_error_everywhere(code, odd ? "sendbuf is NULL" : "invalid argument");
}

TEST_F(Api, a_negative_count_on_one_rank_is_an_error_on_all_ranks) {
  if (size == 1) return;
  std::vector<float> x(2000, 1.0F);
  const bool odd = rank == size - 1;
  const int code =
      MPIQ_Allreduce(MPI_IN_PLACE, x.data(), odd ? -1 : 2000, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL);
  expect_error_everywhere(code, odd ? "count -1 is negative" : "invalid argument");
}

TEST_F(Api, bad_and_differing_policies_are_errors_and_change_nothing) {
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "0-: onebit"), MPI_SUCCESS);
  expect_error_everywhere(MPIQ_Comm_set_policy(comm, "0-: onebitt"), "onebitt");
  if (size > 1)
    expect_error_everywhere(MPIQ_Comm_set_policy(comm, rank == 0 ? "0-: bf16" : "0-: raw"),
                            "different rules");
  std::vector<float> x(2000, 1.0F);
  ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 2000, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(stats().compressed_calls, size > 1 ? 1u : 0u) << "the first policy is still in force";
}

TEST_F(Api, sub_communicators_have_their_own_state_and_duplicates_start_fresh) {
  MPI_Comm half = MPI_COMM_NULL, copy = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank % 2, -rank, &half);
  ASSERT_EQ(MPIQ_Comm_set_policy(half, "0-: onebit"), MPI_SUCCESS);
  MPI_Comm_dup(half, &copy);
  int half_size = 0;
  MPI_Comm_size(half, &half_size);
  std::vector<float> x(3000, 2.0F);
  ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 3000, MPI_FLOAT, MPI_SUM, half, MPI_INFO_NULL),
            MPI_SUCCESS);
  for (const float v : x) ASSERT_EQ(v, 2.0F * static_cast<float>(half_size));
  ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 3000, MPI_FLOAT, MPI_SUM, copy, MPI_INFO_NULL),
            MPI_SUCCESS);
  MPIQ_Stats s = MPIQ_STATS_INIT;
  ASSERT_EQ(MPIQ_Comm_get_stats(copy, &s), MPI_SUCCESS);
  EXPECT_EQ(s.compressed_calls, 0u);
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
}

TEST_F(Api, many_communicators_come_and_go) {
  const int rounds = size <= 2 ? 300 : 20;  // MPI itself crawls with more ranks than cores
  for (int i = 0; i < rounds; ++i) {
    MPI_Comm c = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &c);
    std::vector<float> x(100, 1.0F);
    ASSERT_EQ(
        MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 100, MPI_FLOAT, MPI_SUM, c, Info{{"mpiq_method", "onebit"}}),
        MPI_SUCCESS);
    MPI_Comm_free(&c);
  }
}

TEST_F(Api, random_sizes_back_to_back_stay_in_step) {
  std::uint64_t state = seed();
  for (int i = 0; i < (size <= 2 ? 60 : 20); ++i) {
    state = state * 6364136223846793005u + 1;
    const std::size_t n = (state >> 33) % 50000;
    const std::string method = std::string(kernels::codecs()[(state >> 20) % 4].name) + "/" +
                               std::string(plans()[(state >> 25) % plans().size()].name);
    std::vector<float> x(n, 0.5F);
    ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, comm,
                             Info{{"mpiq_method", method}}),
              MPI_SUCCESS);
    for (const float v : x) ASSERT_EQ(v, 0.5F * static_cast<float>(size)) << method;
  }
}

TEST_F(Api, stats_count_what_happened) {
  if (size == 1) return;
  const std::vector<float> x = input<float>(100000);
  std::vector<float> y(x.size());
  ASSERT_EQ(
      MPIQ_Allreduce(x.data(), y.data(), 100000, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_method", "onebit"}}),
      MPI_SUCCESS);
  const MPIQ_Stats s = stats();
  EXPECT_EQ(s.calls, 1u);
  EXPECT_EQ(s.compressed_calls, 1u);
  EXPECT_EQ(s.elements, 100000u);
  EXPECT_EQ(s.raw_bytes, 400000u);
  EXPECT_GT(s.wire_bytes_sent, 100000u / 8 * static_cast<unsigned>(size - 1) / static_cast<unsigned>(size));
  EXPECT_LT(s.wire_bytes_sent, 400000u / 8);
  EXPECT_GT(s.scratch_bytes, 0u);
  EXPECT_GT(s.encode_s, 0);
  EXPECT_EQ(s.exact_mode, MPIQ_EXACT_NONE);
  EXPECT_NE(MPIQ_Comm_get_stats(comm, nullptr), MPI_SUCCESS);
}

TEST_F(Api, stats_of_a_size_that_the_library_cannot_serve_are_an_error_and_stay_as_they_were) {
  MPIQ_Stats s = MPIQ_STATS_INIT;
  EXPECT_EQ(s.size, sizeof(MPIQ_Stats));
  s.calls = 77;
  for (const std::uint64_t bad : {std::uint64_t{0}, s.size - 1, s.size + 1, ~std::uint64_t{0}}) {
    s.size = bad;
    expect_error_everywhere(MPIQ_Comm_get_stats(comm, &s), "MPIQ_STATS_INIT");
    EXPECT_EQ(s.size, bad);
    EXPECT_EQ(s.calls, 77u);
  }
}

TEST_F(Api, wire_bound_and_version_answer_without_communication) {
  MPI_Count bytes = 0;
  ASSERT_EQ(MPIQ_Wire_bound("onebit(block=2048)", 4096, MPI_FLOAT, &bytes), MPI_SUCCESS);
  EXPECT_EQ(bytes, 2 * (8 + 256));
  ASSERT_EQ(MPIQ_Wire_bound("mpi", 10, MPI_DOUBLE, &bytes), MPI_SUCCESS);
  EXPECT_EQ(bytes, 80);
  EXPECT_NE(MPIQ_Wire_bound("nosuch", 10, MPI_DOUBLE, &bytes), MPI_SUCCESS);
  EXPECT_NE(MPIQ_Wire_bound("bf16", (MPI_Count{1} << 58) + 1, MPI_DOUBLE, &bytes), MPI_SUCCESS);
  EXPECT_EQ(MPIQ_Wire_bound("raw", MPI_Count{1} << 58, MPI_DOUBLE, &bytes), MPI_SUCCESS);
  EXPECT_EQ(bytes, MPI_Count{1} << 61);
  EXPECT_NE(MPIQ_Wire_bound("mpi", -1, MPI_DOUBLE, &bytes), MPI_SUCCESS);
  EXPECT_NE(MPIQ_Wire_bound("mpi", 1, MPI_INT, &bytes), MPI_SUCCESS);
  EXPECT_NE(MPIQ_Wire_bound(nullptr, 1, MPI_FLOAT, &bytes), MPI_SUCCESS);
  int major = -1, minor = -1, patch = -1;
  ASSERT_EQ(MPIQ_Get_version(&major, &minor, &patch), MPI_SUCCESS);
  EXPECT_EQ(major, MPIQ_VERSION_MAJOR);
  EXPECT_EQ(minor, MPIQ_VERSION_MINOR);
  EXPECT_EQ(patch, MPIQ_VERSION_PATCH);
}

TEST_F(Api, overlapping_vectors_are_an_error_on_all_ranks) {
  if (size == 1) return;
  std::vector<float> both(2000, 1.0F), z(1000);
  const bool last = rank == size - 1;
  for (const std::string method : {"onebit", "mpi"})
    for (const std::ptrdiff_t shift : {-999, -1, 0, 1, 999, 1000}) {
      const float* const x = both.data() + (shift < 0 ? -shift : 0);
      float* const y = last ? both.data() + (shift < 0 ? 0 : shift) : z.data();
      const int code = MPIQ_Allreduce(x, y, 1000, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_method", method}});
      if (shift == 1000)
        EXPECT_EQ(code, MPI_SUCCESS);
      else
        expect_error_everywhere(code, last ? "overlap" : "invalid argument");
    }
}

}  // namespace
}  // namespace mq::test
