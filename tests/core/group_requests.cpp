// MPIQ_Allreduce_group_init: the bits and residuals of MPIQ_Allreduce_group from start to start, beside other
// calls in flight; no allocation in a start; and errors on all ranks.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/group.hpp"
#include "tests/core/requests.hpp"

namespace mq::test {
namespace {

class GroupRequests : public Group {
 protected:
  int init(Vectors<float>& v, MPI_Info info, const std::string& prefix, MPIQ_Request* request) const {
    const std::vector<std::string> keys = names(v.x.size(), prefix);
    std::vector<const char*> pointers;
    for (const std::string& key : keys) pointers.push_back(key.c_str());
    return MPIQ_Allreduce_group_init(static_cast<int>(v.x.size()), v.in().data(), v.out().data(),
                                     v.counts().data(), prefix.empty() ? nullptr : pointers.data(), MPI_FLOAT,
                                     MPI_SUM, comm, info, request);
  }
};

TEST_F(GroupRequests, every_start_has_the_bits_and_residuals_of_a_blocking_call) {
  for (const std::string method :
       {"onebit/allgather", "int8/direct", "topk/ring", "onebit memory=momentum(m=0.5)", "raw", "mpi"}) {
    const Info info{{"mpiq_method", method}, {"mpiq_op", method == "raw" ? "avg" : "sum"}};
    Vectors<float> w = vectors<float>();
    MPIQ_Request request = MPIQ_REQUEST_NULL, single = MPIQ_REQUEST_NULL;
    ASSERT_EQ(init(w, info, method + "p", &request), MPI_SUCCESS) << method;
    const std::vector<float> one = input<float>(3000);
    std::vector<float> beside(one.size());
    for (int turn = 0; turn < 4; ++turn) {
      Vectors<float> v = vectors<float>(kLengths, turn);
      for (std::size_t i = 0; i < v.x.size(); ++i) std::copy(v.x[i].begin(), v.x[i].end(), w.x[i].begin());
      ASSERT_EQ(sum(v, info, method + "b"), MPI_SUCCESS) << method;
      const std::size_t before = allocations;
      ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
      if (turn == 1) {  // another call in flight
        ASSERT_EQ(MPIQ_Iallreduce(one.data(), beside.data(), 3000, MPI_FLOAT, MPI_SUM, comm,
                                  Info{{"mpiq_method", "bf16"}}, &single),
                  MPI_SUCCESS);
      }
      ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      if (turn > 1 && method != "mpi") {
        EXPECT_EQ(allocations, before) << method << " turn " << turn;
      }
      ASSERT_EQ(MPIQ_Wait(&single), MPI_SUCCESS);
      for (std::size_t i = 0; i < v.x.size(); ++i) {
        EXPECT_TRUE(same_on_all_ranks(w.y[i])) << method << " vector " << i;
        const bool is_same =
            method == "mpi" ? relative_error(w.y[i], v.y[i]) <= 1e-6 : same_bits(w.y[i], v.y[i]);
        EXPECT_TRUE(is_same) << method << " vector " << i << " turn " << turn;
      }
    }
    ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  }
}

TEST_F(GroupRequests, that_differ_or_cannot_be_made_are_errors_on_all_ranks) {
  const bool odd = rank == size - 1;
  const Info int8{{"mpiq_method", "int8"}}, exact{{"mpiq_method", "mpi"}};
  Vectors<float> v = vectors<float>({300, 300}), w = vectors<float>({300, odd ? 299U : 300U});
  MPIQ_Request request = MPIQ_REQUEST_NULL, other = MPIQ_REQUEST_NULL;
  for (const std::string method : {"lowrank(rank=2)", "bound(rel=0.1)", "topk memory=ef21"})
    expect_error_everywhere(init(v, Info{{"mpiq_method", method}}, "k", &request),
                            "MPIQ_Allreduce_group_init");
  EXPECT_EQ(request, MPIQ_REQUEST_NULL);
  expect_error_everywhere(init(v, int8, "", odd ? nullptr : &request),
                          odd ? "MPIQ_Allreduce_group_init: request is NULL" : "invalid argument");
  EXPECT_EQ(request, MPIQ_REQUEST_NULL);
  if (size > 1) {
    expect_error_everywhere(init(w, int8, "", &request), "MPIQ_Allreduce_group_init");
    expect_error_everywhere(odd ? init(v, int8, "", &request) : sum(v, int8), "MPIQ_Allreduce_group");
    expect_error_everywhere(init(v, odd ? exact : int8, "", &request), "MPIQ_Allreduce_group_init");
  }
  // A key serves one call at a time; an error of a start leaves the request as it was.
  ASSERT_EQ(init(v, int8, "k", &request), MPI_SUCCESS);
  ASSERT_EQ(init(w = v, int8, "k", &other), MPI_SUCCESS);
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Start(&other), MPI_SUCCESS);
    EXPECT_NE(MPIQ_Start(&other), MPI_SUCCESS) << "it is active";
    const int code = MPIQ_Wait(&other);
    if (size > 1) {
      expect_error_everywhere(code, "key \"k0\" is in use by a call in flight");
    } else {
      ASSERT_EQ(code, MPI_SUCCESS);
    }
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    for (std::size_t i = 0; i < v.x.size(); ++i) {
      EXPECT_TRUE(same_on_all_ranks(v.y[i]));
      EXPECT_LE(relative_error(v.y[i], this->exact(v.x[i])), 0.05);
    }
  }
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Request_free(&other), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::test
