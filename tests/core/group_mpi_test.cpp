// MPIQ_Allreduce_group under MPI: every codec and plan gives all ranks the same bits; where no vector is cut,
// one call for each vector gives them too; residuals by key; one agreement. group_errors_mpi_test.cpp has
// what is refused.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "kernels/memory.hpp"
#include "mpi_quant.h"
#include "mpi_quant/plan/plan.hpp"
#include "tests/core/group.hpp"

namespace mq::test {
namespace {

// Each vector has its own bound: a long vector of large elements takes nothing from a short one.
TEST_F(Group, every_codec_sums_each_vector_within_its_own_bound_and_all_ranks_get_the_same_bits) {
  const auto check = [&]<class T>(T) {
    for (const kernels::Codec& codec : kernels::codecs()) {
      if (measures(codec)) continue;
      Vectors<T> v = vectors<T>();
      for (T& value : v.x[6]) value *= 1000;
      ASSERT_EQ(sum(v, Info{{"mpiq_method", std::string(codec.name)}}), MPI_SUCCESS) << codec.name;
      for (std::size_t i = 0; i < v.x.size(); ++i) {
        EXPECT_LE(norm(v.y[i], exact(v.x[i])), 8 * loss(codec) * norms_of_all_ranks(v.x[i]))
            << codec.name << " vector " << i;
        EXPECT_TRUE(same_on_all_ranks(v.y[i])) << codec.name << " vector " << i;
      }
    }
  };
  check(float{});
  if (size <= 3) check(double{});
}

// A codec with a bound for each element keeps it in each vector; the presets above measure the vector first.
TEST_F(Group, an_absolute_bound_holds_in_each_vector) {
  for (const char* const method : {"bound(abs=0.001)", "bound(abs=0.001)/direct"}) {
    Vectors<float> v = vectors<float>();
    ASSERT_EQ(sum(v, Info{{"mpiq_method", method}}), MPI_SUCCESS) << method;
    for (std::size_t i = 0; i < v.x.size(); ++i) {
      EXPECT_TRUE(same_on_all_ranks(v.y[i])) << method;
      const std::vector<float> all = exact(v.x[i]);
      for (std::size_t k = 0; k < all.size(); ++k)
        ASSERT_NEAR(v.y[i][k], all[k], 0.00101) << method << " vector " << i << " at " << k;
    }
  }
}

// Plans that cut no slices: each vector is encoded as it would be alone.
TEST_F(Group, without_slices_the_bits_are_those_of_one_call_for_each_vector) {
  for (const kernels::Codec& codec : kernels::codecs())
    for (const char* const plan : {"/allgather", "/recursive_doubling"}) {
      if (measures(codec) || !repeats(codec)) continue;
      const std::string method = std::string(codec.name) + plan;
      for (int turn = 0; turn < 2; ++turn) {
        Vectors<float> v = vectors<float>(kLengths, turn);
        ASSERT_EQ(sum(v, Info{{"mpiq_method", method}}, method + "g"), MPI_SUCCESS) << method;
        for (std::size_t i = 0; i < v.x.size(); ++i) {
          std::vector<float> alone(v.x[i].size());
          ASSERT_EQ(one(v.x[i], alone,
                        Info{{"mpiq_method", method}, {"mpiq_key", method + "s" + std::to_string(i)}}),
                    MPI_SUCCESS);
          EXPECT_TRUE(same_bits(v.y[i], alone)) << method << " vector " << i << " turn " << turn;
        }
      }
    }
}

TEST_F(Group, every_plan_gives_all_ranks_the_same_bits_in_place_as_well) {
  for (const PlanRow& plan : plans())
    for (const char* const codec : {"raw", "onebit", "int8", "topk"}) {
      const std::string method = std::string(codec) + "/" + std::string(plan.name);
      Vectors<float> v = vectors<float>(), in_place = v;
      ASSERT_EQ(sum(v, Info{{"mpiq_method", method}}), MPI_SUCCESS) << method;
      in_place.y = in_place.x;
      ASSERT_EQ(MPIQ_Allreduce_group(static_cast<int>(v.x.size()), nullptr, in_place.out().data(),
                                     v.counts().data(), nullptr, MPI_FLOAT, MPI_SUM, comm,
                                     Info{{"mpiq_method", method}}),
                MPI_SUCCESS);
      for (std::size_t i = 0; i < v.x.size(); ++i) {
        EXPECT_TRUE(same_on_all_ranks(v.y[i])) << method;
        EXPECT_TRUE(same_bits(v.y[i], in_place.y[i])) << method;
        if (std::string(codec) == "raw") {
          EXPECT_LE(relative_error(v.y[i], exact(v.x[i])), 1e-5) << method;
        }
      }
    }
}

// What all calls delivered and what waits is what was given, for each vector. The last call is a single one:
// MPIQ_Allreduce knows the same keys.
TEST_F(Group, residuals_belong_to_their_vectors_and_nothing_is_lost) {
  if (size == 1) GTEST_SKIP() << "nothing is compressed";
  for (const char* const method :
       {"onebit", "topk/direct", "int8/halving_doubling", "onebit/grid", "topk/ring"}) {
    constexpr int kTurns = 4;
    std::vector<std::vector<double>> got, wanted;
    for (int turn = 0; turn < kTurns; ++turn) {
      Vectors<float> v = vectors<float>(kLengths, turn);
      got.resize(v.x.size());
      wanted.resize(v.x.size());
      ASSERT_EQ(sum(v, Info{{"mpiq_method", method}, {"mpiq_op", turn % 2 == 0 ? "sum" : "avg"}}, method),
                MPI_SUCCESS);
      for (std::size_t i = 0; i < v.x.size(); ++i) {
        got[i].resize(v.x[i].size());
        wanted[i].resize(v.x[i].size());
        const std::vector<float> all = exact(v.x[i]);
        for (std::size_t k = 0; k < all.size(); ++k) {
          got[i][k] += static_cast<double>(v.y[i][k]) * (turn % 2 == 0 ? 1 : size);
          wanted[i][k] += static_cast<double>(all[k]);
        }
      }
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::vector<float> zero(got[i].size());
      std::vector<float> rest(zero.size());
      ASSERT_EQ(one(zero, rest, Info{{"mpiq_method", "raw"}, {"mpiq_key", method + std::to_string(i)}}),
                MPI_SUCCESS);
      for (std::size_t k = 0; k < rest.size(); ++k) got[i][k] += static_cast<double>(rest[k]);
      EXPECT_LE(relative_error(got[i], wanted[i]), 1e-5) << method << " vector " << i;
    }
  }
}

// With one rank's losses to look at: every rule's arrays belong to their vector.
TEST_F(Group, every_memory_rule_works_as_in_single_calls_or_is_an_error_on_all_ranks) {
  if (size == 1) GTEST_SKIP() << "nothing is compressed";
  for (const kernels::MemoryRule& rule : kernels::memory_rules()) {
    const std::string method = "topk/allgather memory=" + std::string(rule.name);
    for (int turn = 0; turn < 3; ++turn) {
      Vectors<float> v = vectors<float>(kLengths, turn);
      const int code = sum(v, Info{{"mpiq_method", method}}, method + "g");
      if (rule.keeps_estimates) {
        expect_error_everywhere(code, "keeps estimates of one vector");
        continue;
      }
      ASSERT_EQ(code, MPI_SUCCESS) << method;
      for (std::size_t i = 0; i < v.x.size(); ++i) {
        std::vector<float> alone(v.x[i].size());
        ASSERT_EQ(
            one(v.x[i], alone, Info{{"mpiq_method", method}, {"mpiq_key", method + "s" + std::to_string(i)}}),
            MPI_SUCCESS);
        EXPECT_TRUE(same_bits(v.y[i], alone)) << method << " vector " << i << " turn " << turn;
      }
    }
    if (rule.ops != nullptr) {
      Vectors<float> v = vectors<float>();
      expect_error_everywhere(
          sum(v, Info{{"mpiq_method", method}}),
          rule.keeps_estimates ? "keeps estimates of one vector" : "needs the name of each vector (keys)");
    }
  }
}

// 200 vectors of 40 elements are one short message to each other rank.
TEST_F(Group, is_one_call_with_the_messages_of_one_vector) {
  if (size == 1) GTEST_SKIP() << "nothing is sent";
  Vectors<float> v = vectors<float>(std::vector<std::size_t>(200, 40));
  const std::vector<float> as_one = input<float>(200 * 40);
  std::vector<float> y(as_one.size());
  for (const char* const method : {"int8/direct", "onebit/allgather"}) {
    const Info info{{"mpiq_method", method}};
    ASSERT_EQ(sum(v, info), MPI_SUCCESS);  // the first call opens the communicator
    const MPIQ_Stats first = stats();
    ASSERT_EQ(sum(v, info, "k"), MPI_SUCCESS);
    const MPIQ_Stats second = stats();
    ASSERT_EQ(one(as_one, y, info), MPI_SUCCESS);
    const MPIQ_Stats third = stats();
    EXPECT_EQ(second.messages_sent - first.messages_sent, third.messages_sent - second.messages_sent);
    EXPECT_EQ(second.calls - first.calls, 1u);
    EXPECT_EQ(second.compressed_calls - first.compressed_calls, 1u);
    EXPECT_EQ(second.elements - first.elements, 8000u);
  }
}

TEST_F(Group, exact_calls_rules_and_types) {
  MPIQ_Comm_set_policy(comm, "64K-: bf16; 0-64K: mpi");
  for (const std::size_t n : {std::size_t{100}, std::size_t{20000}}) {
    Vectors<float> v = vectors<float>({n, 5, n});
    ASSERT_EQ(sum(v, MPI_INFO_NULL), MPI_SUCCESS);
    const bool is_compressed = stats().compressed_calls > 0;
    EXPECT_EQ(is_compressed, n == 20000 && size > 1) << "the rule looks at the bytes of all";
    for (std::size_t i = 0; i < 3; ++i) EXPECT_LE(relative_error(v.y[i], exact(v.x[i])), 0.02);
  }
  for (const char* const rule : {": auto(error=0.1)", ": lowrank(rank=2)", ": mpi", ""}) {
    ASSERT_EQ(MPIQ_Comm_set_policy(comm, rule), MPI_SUCCESS);
    Vectors<float> v = vectors<float>();
    ASSERT_EQ(sum(v, Info{{"mpiq_op", "avg"}}), MPI_SUCCESS) << rule;
    for (std::size_t i = 0; i < v.x.size(); ++i) {
      std::vector<float> mean = exact(v.x[i]);
      for (float& m : mean) m /= static_cast<float>(size);
      EXPECT_LE(relative_error(v.y[i], mean), 1e-6) << rule;
    }
  }
  std::vector<int> a(3, 1), b(4, 2);
  void* both[]{a.data(), b.data()};
  const MPI_Count counts[]{3, 4};
  ASSERT_EQ(MPIQ_Allreduce_group(2, nullptr, both, counts, nullptr, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(b, std::vector<int>(4, 2));
  std::vector<std::complex<float>> c(1000, {1, 2}), d(30, {static_cast<float>(rank), 3});
  void* complex[]{c.data(), d.data()};
  const MPI_Count lengths[]{1000, 30};
  for (const char* const method : {"mpi", "int8"})
    ASSERT_EQ(MPIQ_Allreduce_group(2, nullptr, complex, lengths, nullptr, MPI_C_FLOAT_COMPLEX, MPI_SUM, comm,
                                   Info{{"mpiq_method", method}, {"mpiq_op", "avg"}}),
              MPI_SUCCESS);
  for (const auto value : c) ASSERT_NEAR(std::abs(value - std::complex<float>{1, 2}), 0, 0.05);
  for (const auto value : d) ASSERT_NEAR(value.real(), (size - 1) / 2.0, 0.05 * size);
}

TEST_F(Group, non_blocking_ones_give_the_bits_and_the_residuals_of_blocking_ones) {
  for (const char* const method : {"onebit/allgather", "int8/direct", "topk/ring", "onebit/grid",
                                   "onebit memory=momentum(m=0.5)", "mpi"})
    for (int turn = 0; turn < 3; ++turn) {
      Vectors<float> v = vectors<float>(kLengths, turn), w = v;
      const Info info{{"mpiq_method", method}, {"mpiq_op", turn == 1 ? "avg" : "sum"}};
      ASSERT_EQ(sum(v, info, std::string(method) + "b"), MPI_SUCCESS) << method;
      ASSERT_EQ(start_and_wait(w, info, std::string(method) + "n"), MPI_SUCCESS) << method;
      for (std::size_t i = 0; i < v.x.size(); ++i) {
        EXPECT_TRUE(same_on_all_ranks(w.y[i])) << method << " vector " << i;
        if (std::string(method) == "mpi") {
          EXPECT_LE(relative_error(w.y[i], v.y[i]), 1e-6) << "vector " << i;
        } else {
          EXPECT_TRUE(same_bits(w.y[i], v.y[i])) << method << " vector " << i << " turn " << turn;
        }
      }
    }
}

// Completed in another order than they were started, with single calls and a blocking group between. What
// each key's calls gave and what waits is what was given.
TEST_F(Group, any_number_in_flight_beside_other_calls_and_nothing_is_lost) {
  constexpr int kMany = 6;
  const Info info{{"mpiq_method", "onebit"}};
  std::vector<Vectors<float>> v;
  std::vector<MPIQ_Request> requests(2 * kMany, MPIQ_REQUEST_NULL);
  std::vector<int> ones(10, 1), counted(10);
  for (int t = 0; t < kMany; ++t) v.push_back(vectors<float>({3000, 0, 17, 70000}, t));
  const std::vector<float> single = input<float>(5000);
  std::vector<std::vector<float>> singles(kMany, std::vector<float>(single.size()));
  for (std::size_t t = 0; t < kMany; ++t) {
    ASSERT_EQ(start(v[t], t % 2 ? MPI_Info(info) : MPI_INFO_NULL, "g" + std::to_string(t), requests[2 * t]),
              MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Iallreduce(single.data(), singles[t].data(), 5000, MPI_FLOAT, MPI_SUM, comm,
                              Info{{"mpiq_method", "raw"}}, &requests[2 * t + 1]),
              MPI_SUCCESS);
  }
  Vectors<float> between = vectors<float>();
  ASSERT_EQ(sum(between, info, "between"), MPI_SUCCESS);
  MPIQ_Request of_integers = MPIQ_REQUEST_NULL;
  void* both[]{counted.data(), counted.data() + 4};
  const void* const from[]{ones.data(), ones.data()};
  const MPI_Count lengths[]{4, 6};
  ASSERT_EQ(MPIQ_Iallreduce_group(2, from, both, lengths, nullptr, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                  &of_integers),
            MPI_SUCCESS);
  for (std::size_t i = requests.size(); i-- > 0;) {
    int flag = 0;
    while (i % 3 == 0 && flag == 0) ASSERT_EQ(MPIQ_Test(&requests[i], &flag), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&requests[i]), MPI_SUCCESS);
    EXPECT_EQ(requests[i], MPIQ_REQUEST_NULL);
  }
  ASSERT_EQ(MPIQ_Wait(&of_integers), MPI_SUCCESS);
  EXPECT_EQ(counted, std::vector<int>(10, size));
  for (std::size_t t = 0; t < kMany; ++t) {
    EXPECT_LE(relative_error(singles[t], exact(single)), 1e-5);
    for (std::size_t i = 0; i < v[t].x.size(); ++i) {
      const std::vector<float> zero(v[t].x[i].size());
      std::vector<float> rest = zero;
      EXPECT_TRUE(same_on_all_ranks(v[t].y[i]));
      const Info key{{"mpiq_method", "raw"}, {"mpiq_key", "g" + std::to_string(t) + std::to_string(i)}};
      if (t % 2 != 0) {
        ASSERT_EQ(one(zero, rest, key), MPI_SUCCESS);
      }
      for (std::size_t k = 0; k < rest.size(); ++k) rest[k] += v[t].y[i][k];
      EXPECT_LE(relative_error(rest, exact(v[t].x[i])), 1e-5) << "group " << t << " vector " << i;
    }
  }
}

// Half types are converted piece by piece, and vectors may begin at any byte.
TEST_F(Group, half_types_and_vectors_at_any_byte) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&type), MPI_SUCCESS);
  const kernels::ConvertOps& convert = *kernels::convert(kernels::Element::bf16, kernels::Isa::scalar);
  const std::vector<float> ones(5000, 1.0F);
  std::vector<std::byte> memory(3 * 10001);
  for (const std::string method : {"mpi", "int8", "onebit/direct"}) {
    void* vectors[]{memory.data() + 1, memory.data() + 10003, memory.data() + 20005};
    for (void* const v : vectors) convert.narrow(ones.data(), v, nullptr, 5000);
    const MPI_Count counts[]{5000, 5000, 4998};
    const char* const keys[]{"a", "b", "c"};
    ASSERT_EQ(MPIQ_Allreduce_group(3, nullptr, vectors, counts, method == "mpi" ? nullptr : keys, type,
                                   MPI_SUM, comm, Info{{"mpiq_method", method}}),
              MPI_SUCCESS);
    std::vector<float> sums(5000);
    convert.widen(vectors[2], sums.data(), 4998);
    for (std::size_t i = 0; i < 4998; ++i) ASSERT_NEAR(sums[i], size, 0.02 * size) << method;
    ASSERT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS);
  }
}

TEST_F(Group, no_vectors_and_empty_ones) {
  const Info info{{"mpiq_method", "onebit"}};
  EXPECT_EQ(MPIQ_Allreduce_group(0, nullptr, nullptr, nullptr, nullptr, MPI_FLOAT, MPI_SUM, comm, info),
            MPI_SUCCESS);
  void* none[]{nullptr, nullptr};
  const MPI_Count zeros[]{0, 0};
  const char* const keys[]{"a", "b"};
  EXPECT_EQ(MPIQ_Allreduce_group(2, nullptr, none, zeros, keys, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
  float x = 1;
  void* some[]{nullptr, &x, nullptr};
  const MPI_Count one_element[]{0, 1, 0};
  const char* const of_all[]{"a", "b", "c"};
  EXPECT_EQ(MPIQ_Allreduce_group(3, nullptr, some, one_element, of_all, MPI_FLOAT, MPI_SUM, comm, info),
            MPI_SUCCESS);
  EXPECT_EQ(x, static_cast<float>(size));
}

}  // namespace
}  // namespace mq::test
