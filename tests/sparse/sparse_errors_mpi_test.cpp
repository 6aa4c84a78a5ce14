// Everything that must be an error of the public sparse functions on all ranks, after which the communicator
// still works.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sparse/sparse_case.hpp"

namespace mq::test {
namespace {

TEST_F(Sparse, what_one_rank_does_wrong_is_an_error_on_all) {
  const Case c{Spread::uniform, 1000, 100};
  const std::vector<std::int64_t> good = indices(c, rank);
  const std::vector<float> v(200, 1.0F);
  std::vector<float> got;
  const bool last = rank == size - 1;
  struct Bad {
    const char* what;
    std::vector<std::int64_t> indices;
    bool sorted;
  };
  for (const Bad& bad :
       {Bad{"negative", {1, -2, 3}, false}, Bad{"greater", {5, 5}, true}, Bad{"greater", {6, 5}, true}}) {
    const Info sorted{{"mpiq_indices", bad.sorted ? "sorted" : "any"}};
    const int code = reduce(c, last ? bad.indices : good, v, {}, got, sorted);
    expect_error_everywhere(code, last ? bad.what : "rank");
    const int in_code = reduce(c, good, v, last ? bad.indices : std::vector<std::int64_t>{}, got, sorted);
    expect_error_everywhere(in_code, last ? bad.what : "rank");
  }
  // Out of range of a union.
  std::vector<float> dense(1000);
  const std::vector<std::int64_t> beyond{1, 1000};
  const std::vector<std::int64_t>& mine = last ? beyond : good;
  const int code =
      MPIQ_Sparse_allreduce_union(static_cast<MPI_Count>(mine.size()), mine.data(), v.data(), 1000, 1000,
                                  nullptr, dense.data(), nullptr, 1, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL);
  expect_error_everywhere(code, last ? "out of range" : "rank");
}

TEST_F(Sparse, ranks_that_differ_get_an_error_everywhere) {
  if (size == 1) return;
  const Case c{Spread::uniform, 1000, 100};
  const std::vector<std::int64_t> at = indices(c, rank);
  const std::vector<double> v(400, 1.0);
  std::vector<double> got;
  const bool last = rank == size - 1;
  Case other = c;
  other.stride = last ? 2 : 1;
  expect_error_everywhere(reduce(other, at, v, {}, got, MPI_INFO_NULL), "differ");
  other = c;
  other.op = last ? MPI_MAX : MPI_SUM;
  expect_error_everywhere(reduce(other, at, v, {}, got, MPI_INFO_NULL), "differ");
  expect_error_everywhere(reduce(c, at, v, {}, got, Info{{"mpiq_key", last ? "a" : "b"}}), "differ");
  expect_error_everywhere(reduce(c, at, v, {}, got, Info{{"mpiq_indices", last ? "any" : "sorted"}}),
                          "differ");
  // Another function.
  std::vector<float> dense(1000), x(1000);
  const int code = last ? MPIQ_Allreduce(x.data(), dense.data(), 1000, MPI_FLOAT, MPI_SUM, comm,
                                         Info{{"mpiq_method", "onebit"}})
                        : MPIQ_Sparse_allreduce_union(0, nullptr, nullptr, 1000, 1000, nullptr, dense.data(),
                                                      nullptr, 1, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL);
  expect_error_everywhere(code, "differ");
}

TEST_F(Sparse, arguments_and_infos_that_cannot_be_used_are_named) {
  const std::int64_t index = 1;
  const float value = 1;
  float result = 0;
  const auto reduce_one = [&](MPI_Count count, MPI_Count stride, MPI_Datatype type, MPI_Op op,
                              MPI_Info info) {
    return MPIQ_Sparse_allreduce(count, &index, &value, 1, &index, &result, stride, type, op, comm, info);
  };
  expect_error_everywhere(reduce_one(-1, 1, MPI_FLOAT, MPI_SUM, MPI_INFO_NULL), "negative");
  expect_error_everywhere(reduce_one(1, 0, MPI_FLOAT, MPI_SUM, MPI_INFO_NULL), "stride");
  expect_error_everywhere(reduce_one(1, 1, MPI_INT, MPI_SUM, MPI_INFO_NULL), "datatype");
  expect_error_everywhere(reduce_one(1, 1, MPI_FLOAT, MPI_PROD, MPI_INFO_NULL), "op");
  expect_error_everywhere(reduce_one(1, 1, MPI_FLOAT, MPI_SUM, Info{{"mpiq_colour", "red"}}), "mpiq_colour");
  expect_error_everywhere(reduce_one(1, 1, MPI_FLOAT, MPI_SUM, Info{{"mpiq_degrees", "2xx"}}),
                          "mpiq_degrees");
  expect_error_everywhere(reduce_one(1, 1, MPI_FLOAT, MPI_SUM, Info{{"mpiq_timeout", "-1"}}), "mpiq_timeout");
  expect_error_everywhere(reduce_one(1, 1, MPI_FLOAT, MPI_SUM, Info{{"mpiq_algorithm", "split"}}),
                          "mpiq_algorithm");
  EXPECT_EQ(reduce_one(1, 1, MPI_FLOAT, MPI_SUM, Info{{"other_key", "red"}}), MPI_SUCCESS);
  EXPECT_EQ(result, static_cast<float>(size));
}

TEST_F(Sparse, a_union_longer_than_the_result_is_an_error_on_all_ranks) {
  const Case c{Spread::disjoint, 10000, 100};
  const std::vector<std::int64_t> at = indices(c, rank);
  const std::vector<float> v = values<float>(c, rank);
  const auto all = oracle<float>(c);
  for (const std::string& algorithm : kAlgorithms) {
    std::vector<std::int64_t> result(all.size());
    std::vector<float> sums(all.size());
    MPI_Count n = 0;
    const int code = MPIQ_Sparse_allreduce_union(
        static_cast<MPI_Count>(at.size()), at.data(), v.data(), 10000, static_cast<MPI_Count>(all.size() - 1),
        result.data(), sums.data(), &n, 1, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_algorithm", algorithm}});
    expect_error_everywhere(code, "room for " + std::to_string(all.size() - 1));
  }
}

TEST_F(Sparse, a_rank_that_does_not_come_is_an_error_in_time) {
  if (size == 1) return;
  MPI_Comm lonely = MPI_COMM_NULL;  // unusable after it
  MPI_Comm_dup(comm, &lonely);
  MPI_Comm_set_errhandler(lonely, MPI_ERRORS_RETURN);
  std::vector<float> dense(1000);
  const auto reduce_on = [&](MPI_Info info) {
    return MPIQ_Sparse_allreduce_union(0, nullptr, nullptr, 1000, 1000, nullptr, dense.data(), nullptr, 1,
                                       MPI_FLOAT, MPI_SUM, lonely, info);
  };
  const Info patient{{"mpiq_algorithm", "split"}},
      hasty{{"mpiq_algorithm", "split"}, {"mpiq_timeout", "0.2"}};
  ASSERT_EQ(reduce_on(patient), MPI_SUCCESS);
  if (rank != size - 1) {
    const int code = reduce_on(hasty);
    EXPECT_NE(code, MPI_SUCCESS);
    EXPECT_NE(text_of(code).find("mpiq_timeout"), std::string::npos) << text_of(code);
  }
  MPI_Barrier(comm);
  MPI_Comm_free(&lonely);
}

}  // namespace
}  // namespace mq::test
