// auto for several vectors in one call: whatever the times are, each vector is within the limit, all ranks
// get the same bits, and errors are errors on all ranks.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/core/choices.hpp"
#include "tests/core/group.hpp"

namespace mq::test {
namespace {

class AutoGroup : public Group {
 protected:
  // Sums the vectors, and expects each of them within the limit.
  template <class T>
  void expect_within(Vectors<T>& v, const std::string& method, double limit, bool in_place = false,
                     bool is_mean = false, const std::string& prefix = "") const {
    std::vector<std::vector<T>> wanted;
    for (const auto& x : v.x) {
      wanted.push_back(exact(x));
      for (T& value : wanted.back()) value /= is_mean ? static_cast<T>(size) : T(1);
    }
    const Info info{{"mpiq_method", method}, {"mpiq_op", is_mean ? "avg" : "sum"}};
    if (in_place) {
      v.y = v.x;
      ASSERT_EQ(MPIQ_Allreduce_group(static_cast<int>(v.y.size()), nullptr, v.out().data(), v.counts().data(),
                                     nullptr, mpi_type<T>(), MPI_SUM, comm, info),
                MPI_SUCCESS);
    } else {
      ASSERT_EQ(sum(v, info, prefix), MPI_SUCCESS);
    }
    for (std::size_t i = 0; i < v.y.size(); ++i) {
      EXPECT_LE(relative_error(v.y[i], wanted[i]), limit) << method << " vector " << i;
      EXPECT_TRUE(same_on_all_ranks(v.y[i])) << method << " vector " << i;
    }
  }
};

TEST_F(AutoGroup, each_vector_is_within_the_limit_while_it_learns) {
  const std::vector<std::size_t> layers(20, 2000);
  for (const std::string limit : {"0", "0.02", "0.3"}) {
    const double allowed = limit == "0" ? 1e-6 : std::stod(limit);
    for (int i = 0; i < 60; ++i) {
      Vectors<float> v = vectors<float>(i % 3 == 0 ? kLengths : layers, i);
      expect_within(v, "auto(error=" + limit + ")", allowed, i % 4 == 1, i % 5 == 1, i % 2 == 0 ? "k" : "");
    }
  }
  for (int i = 0; i < 40; ++i) {
    Vectors<double> v = vectors<double>(layers, i);
    expect_within(v, "auto(error=0.02)", 0.02);
  }
  // The call's class counts the vectors of the group.
  const auto is_ours = [](const ChoiceSummary& all) {
    return all.known.calls.vectors == 16 && all.known.calls.limit.value == 0.3;
  };
  const std::vector<ChoiceSummary> all = choice_summaries();
  EXPECT_EQ(std::count_if(all.begin(), all.end(), is_ours), size > 1 ? 1 : 0);
}

TEST_F(AutoGroup, a_rule_of_a_policy_may_say_auto) {
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "64K-: auto(error=0.02)"), MPI_SUCCESS);
  for (int i = 0; i < 20; ++i) {
    Vectors<float> v = vectors<float>(kLengths, i);
    ASSERT_EQ(sum(v, MPI_INFO_NULL), MPI_SUCCESS);
    for (std::size_t k = 0; k < v.y.size(); ++k) EXPECT_LE(relative_error(v.y[k], exact(v.x[k])), 0.02);
  }
}

TEST_F(AutoGroup, no_element_is_off_by_more_than_an_absolute_limit) {
  for (int i = 0; i < 30; ++i) {
    Vectors<float> v = vectors<float>(kLengths, i);
    ASSERT_EQ(sum(v, Info{{"mpiq_method", "auto(error=abs:0.001)"}}), MPI_SUCCESS);
    for (std::size_t k = 0; k < v.y.size(); ++k) {
      const std::vector<float> wanted = exact(v.x[k]);
      for (std::size_t n = 0; n < wanted.size(); ++n) ASSERT_NEAR(v.y[k][n], wanted[n], 0.001 + 1e-5);
    }
  }
}

TEST_F(AutoGroup, complex_numbers_and_other_types_are_summed) {
  std::vector<std::complex<float>> c(20000, {1, 2}), d(300, {static_cast<float>(rank), 3});
  for (int i = 0; i < 30; ++i) {
    std::vector<std::complex<float>> a = c, b = d;
    void* both[]{a.data(), b.data()};
    const MPI_Count counts[]{20000, 300};
    ASSERT_EQ(MPIQ_Allreduce_group(2, nullptr, both, counts, nullptr, MPI_C_FLOAT_COMPLEX, MPI_SUM, comm,
                                   Info{{"mpiq_method", "auto(error=0.02)"}, {"mpiq_op", "avg"}}),
              MPI_SUCCESS);
    for (const auto value : a) ASSERT_NEAR(std::abs(value - std::complex<float>{1, 2}), 0, 0.1);
    for (const auto value : b) ASSERT_NEAR(value.imag(), 3, 0.15);
  }
  MPI_Datatype half = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  for (int i = 0; i < 30; ++i) {
    std::vector<std::uint16_t> x(3000, 0x3f80);  // 1
    void* of[]{x.data(), x.data() + 1000};
    const MPI_Count counts[]{1000, 2000};
    ASSERT_EQ(MPIQ_Allreduce_group(2, nullptr, of, counts, nullptr, half, MPI_SUM, comm,
                                   Info{{"mpiq_method", "auto(error=0.3)"}}),
              MPI_SUCCESS);
    EXPECT_EQ(x[2017], size == 1 ? 0x3f80 : size == 2 ? 0x4000 : 0x4040);
  }
}

TEST_F(AutoGroup, groups_without_elements_or_vectors_are_served) {
  const Info info{{"mpiq_method", "auto(error=0.3)"}};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(MPIQ_Allreduce_group(0, nullptr, nullptr, nullptr, nullptr, MPI_FLOAT, MPI_SUM, comm, info),
              MPI_SUCCESS);
    for (const std::vector<std::size_t>& lengths :
         {std::vector<std::size_t>{0}, {0, 0, 0}, {1}, {1, 0, 1}, std::vector<std::size_t>(300, 3)}) {
      Vectors<float> v = vectors<float>(lengths, i);
      expect_within(v, "auto(error=0.3)", 0.3, i % 2 == 1);
    }
  }
}

TEST_F(AutoGroup, feedback_is_exact_without_keys_and_with_them_nothing_is_lost) {
  const std::vector<std::size_t> lengths{30000, 400, 0, 3000};
  std::vector<std::vector<double>> got, wanted;
  for (const std::size_t n : lengths) got.emplace_back(n), wanted.emplace_back(n);
  for (int i = 0; i < 60; ++i) {
    Vectors<float> v = vectors<float>(lengths, i);
    expect_within(v, "auto(error=feedback)", 1e-6);
    ASSERT_EQ(sum(v, Info{{"mpiq_method", "auto(error=feedback)"}}, "layer"), MPI_SUCCESS);
    for (std::size_t k = 0; k < lengths.size(); ++k) {
      const std::vector<float> all = exact(v.x[k]);
      for (std::size_t n = 0; n < lengths[k]; ++n) {
        got[k][n] += static_cast<double>(v.y[k][n]);
        wanted[k][n] += static_cast<double>(all[n]);
      }
    }
  }
  for (std::size_t k = 0; k < lengths.size(); ++k) EXPECT_LE(relative_error(got[k], wanted[k]), 0.8) << k;
}

// Each limit is a class of its own. Further calls of groups are MPI's. Calls of one vector have room all the
// same.
TEST_F(AutoGroup, groups_of_many_kinds_leave_room_for_other_calls) {
  if (size == 1) return;
  const auto method = [](int i) { return "auto(error=" + std::to_string(0.4 + 1e-3 * i) + ")"; };
  const auto classes = [](int vectors) {
    const std::vector<ChoiceSummary> all = choice_summaries();
    return std::count_if(all.begin(), all.end(), [&](const ChoiceSummary& summary) {
      return summary.known.calls.vectors == vectors && summary.known.calls.limit.value >= 0.39;
    });
  };
  const auto before = classes(2), of_one = classes(0);
  for (int i = 0; i < 300; ++i) {
    Vectors<float> v = vectors<float>({100, 200}, i);
    expect_within(v, method(i), 0.7);
  }
  EXPECT_EQ(classes(2) - before, 256);
  std::vector<float> x(1000, 1), y(1000);
  ASSERT_EQ(one(x, y, Info{{"mpiq_method", method(0)}}), MPI_SUCCESS);
  EXPECT_EQ(classes(0) - of_one, 1);
  const bool odd = rank == size - 1;
  Vectors<float> v = vectors<float>({100, 200});
  expect_error_everywhere(sum(v, Info{{"mpiq_method", method(odd ? 298 : 299)}}), "chosen by auto, limit #");
}

// Non-blocking and persistent ones beside blocking ones, which go on to learn.
TEST_F(AutoGroup, requests_are_within_the_limit_in_any_order) {
  const std::string method = "auto(error=0.02)";
  const Info info{{"mpiq_method", method}};
  const std::vector<std::size_t> layers(12, 3000);
  for (int i = 0; i < 30; ++i) {
    Vectors<float> v = vectors<float>(layers, i);
    expect_within(v, method, 0.02);
  }
  constexpr std::size_t kInFlight = 5;
  std::vector<Vectors<float>> v;
  for (std::size_t r = 0; r < kInFlight; ++r) v.push_back(vectors<float>(layers, 50 + static_cast<int>(r)));
  std::vector<MPIQ_Request> requests(kInFlight, MPIQ_REQUEST_NULL);
  ASSERT_EQ(MPIQ_Allreduce_group_init(static_cast<int>(layers.size()), v[0].in().data(), v[0].out().data(),
                                      v[0].counts().data(), nullptr, MPI_FLOAT, MPI_SUM, comm, info,
                                      requests.data()),
            MPI_SUCCESS);
  for (int step = 0; step < 10; ++step) {
    for (std::size_t r = 0; r < kInFlight; ++r)
      ASSERT_EQ(r == 0 ? MPIQ_Start(requests.data()) : start(v[r], info, "", requests[r]), MPI_SUCCESS);
    if (step % 3 == 2) {
      Vectors<float> beside = vectors<float>(layers, step);
      expect_within(beside, method, 0.02);
    }
    for (std::size_t r = kInFlight; r-- > 0;)
      ASSERT_EQ(MPIQ_Wait(&requests[(r + static_cast<std::size_t>(rank)) % kInFlight]), MPI_SUCCESS);
    for (const Vectors<float>& each : v)
      for (std::size_t k = 0; k < layers.size(); ++k) {
        EXPECT_LE(relative_error(each.y[k], exact(each.x[k])), 0.02);
        EXPECT_TRUE(same_on_all_ranks(each.y[k]));
      }
  }
  ASSERT_EQ(MPIQ_Request_free(requests.data()), MPI_SUCCESS);
}

TEST_F(AutoGroup, errors_of_one_rank_are_errors_on_all_and_the_next_calls_are_right) {
  if (size == 1) return;
  const bool odd = rank == size - 1;
  const std::vector<std::size_t> layers(8, 3000), others{3000, 3000, 3000, 3000, 3000, 3000, 3000, 2999};
  for (int i = 0; i < 40; ++i) {
    Vectors<float> v = vectors<float>(layers, i), other = vectors<float>(odd ? others : layers, i);
    expect_error_everywhere(sum(other, Info{{"mpiq_method", "auto(error=0.3)"}}), "counts #");
    expect_within(v, "auto(error=0.3)", 0.3);
    expect_error_everywhere(sum(v, Info{{"mpiq_method", odd ? "auto(error=0.2)" : "auto(error=0.3)"}}),
                            "chosen by auto, limit #");
    expect_within(v, "auto(error=0.3)", 0.3);
    expect_error_everywhere(sum(v, Info{{"mpiq_method", odd ? "int8" : "auto(error=0.3)"}}), "calls differ");
    Vectors<float> broken = v;
    std::vector<const void*> in = broken.in();
    if (odd) in[3] = nullptr;
    const int code = MPIQ_Allreduce_group(static_cast<int>(layers.size()), in.data(), broken.out().data(),
                                          broken.counts().data(), nullptr, MPI_FLOAT, MPI_SUM, comm,
                                          Info{{"mpiq_method", "auto(error=0.3)"}});
    expect_error_everywhere(code, odd ? "sendbufs[3] is NULL" : "invalid argument");
    expect_within(v, "auto(error=0.3)", 0.3);
  }
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  Vectors<float> v = vectors<float>(layers);
  const Info info{{"mpiq_method", odd ? "auto(error=0.2)" : "auto(error=0.3)"}};
  const int code =
      MPIQ_Allreduce_group_init(static_cast<int>(layers.size()), v.in().data(), v.out().data(),
                                v.counts().data(), nullptr, MPI_FLOAT, MPI_SUM, comm, info, &request);
  expect_error_everywhere(code, "chosen by auto, limit #");
}

// With feedback ranks sign the keys, whatever auto has chosen on them. A rank whose key is wrong misses a
// call, and then the ranks may choose differently for once.
TEST_F(AutoGroup, after_an_error_of_one_rank_calls_with_keys_and_feedback_are_right) {
  if (size == 1) return;
  const bool odd = rank == size - 1;
  const std::vector<std::size_t> layers(4, 60000);
  const std::string names[] = {"a", "b", "c", "d"}, too_long(64, 'k');
  const Info feedback{{"mpiq_method", "auto(error=feedback)"}};
  Vectors<float> v = vectors<float>(layers, 1);
  const auto sum_with_keys = [&](const std::string& first) {
    const char* const keys[] = {first.c_str(), names[1].c_str(), names[2].c_str(), names[3].c_str()};
    return MPIQ_Allreduce_group(static_cast<int>(layers.size()), v.in().data(), v.out().data(),
                                v.counts().data(), keys, MPI_FLOAT, MPI_SUM, comm, feedback);
  };
  for (int i = 0; i < 40; ++i) {
    for (int calls = 0; calls <= i % 7; ++calls)
      EXPECT_EQ(sum_with_keys(names[0]), MPI_SUCCESS) << "call " << i;
    expect_error_everywhere(sum_with_keys(odd ? too_long : names[0]),
                            odd ? "is not 1 to 63 characters" : "invalid argument");
  }
}

}  // namespace
}  // namespace mq::test
