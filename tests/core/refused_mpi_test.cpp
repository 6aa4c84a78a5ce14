// When MPI has no communicator left for the library, or on one rank only: all ranks know it, sums are exact
// or an error as mpi_quant.h says, and the program's error handler hears of nothing that the program did not
// do.

#include <gtest/gtest.h>
#include <mpi.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace {
bool refuses = false;  // on this rank
int refused = 0, heard = 0;
bool has_other_version = false, is_outside = false;  // this rank
void hear(MPI_Comm*, int*, ...) { ++heard; }
}  // namespace

// In front of MPI's own: fails like an MPI that has no communicator left, on the ranks that say so.
extern "C" int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  using Function = int (*)(MPI_Comm, int, int, MPI_Comm*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "PMPI_Comm_split"));
  const int code = real(comm, color, key, made);
  if (!refuses || code != MPI_SUCCESS) return code;
  ++refused;
  PMPI_Comm_free(made);
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

// The first use of a communicator compares versions in the first pair of four words and their complements.
extern "C" int PMPI_Iallreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
                               MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  using Function = int (*)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "PMPI_Iallreduce"));
  if (has_other_version && count == 8) {
    auto* const words = static_cast<std::uint64_t*>(const_cast<void*>(sendbuf));
    words[1] = ~++words[0];
    has_other_version = false;
  }
  return real(sendbuf, recvbuf, count, datatype, op, comm, request);
}

extern "C" int PMPI_Initialized(int* flag) {
  static const auto real = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_NEXT, "PMPI_Initialized"));
  const int code = real(flag);
  if (is_outside) *flag = 0;
  return code;
}

namespace mq::test {
namespace {

class Refused : public Api {
 protected:
  void SetUp() override {
    Api::SetUp();
    heard = refused = 0;
  }
  // A communicator with a policy and an error handler, on which the last rank alone is refused.
  MPI_Comm bereft(const char* rules) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_dup(comm, &made);
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(made, handler);
    MPI_Errhandler_free(&handler);
    EXPECT_EQ(MPIQ_Comm_set_policy(made, rules), MPI_SUCCESS);
    refuses = rank == size - 1;
    return made;
  }
  int sum(MPI_Comm on, MPI_Info info) {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>((i * 17 + static_cast<std::size_t>(rank) * 31) % 101);
    return MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, on, info);
  }
  void expect_exact() const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::size_t whole = 0;
      for (int r = 0; r < size; ++r) whole += (i * 17 + static_cast<std::size_t>(r) * 31) % 101;
      ASSERT_EQ(y[i], static_cast<float>(whole)) << "at " << i;
    }
  }
  std::vector<float> x = std::vector<float>(20000), y = x;
};

TEST_F(Refused, a_sum_that_the_policy_compresses_is_exact_on_all_ranks_and_no_handler_hears_of_it) {
  MPI_Comm on = bereft(": onebit");
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(sum(on, MPI_INFO_NULL), MPI_SUCCESS);
    expect_exact();
  }
  EXPECT_EQ(refused, rank == size - 1 ? 1 : 0) << "asked for once";
  refuses = false;
  ASSERT_EQ(sum(on, MPI_INFO_NULL), MPI_SUCCESS);
  expect_exact();
  MPIQ_Stats s = MPIQ_STATS_INIT;
  MPIQ_Comm_get_stats(on, &s);
  EXPECT_EQ(s.exact_mode, MPIQ_EXACT_NO_COMM);
  EXPECT_EQ(s.compressed_calls, 0U);
  EXPECT_EQ(heard, 0);
  MPI_Comm_free(&on);
}

TEST_F(Refused, a_method_of_the_call_is_an_error_on_all_ranks_also_if_one_rank_names_it) {
  MPI_Comm on = bereft("");
  const Info method{{"mpiq_method", "onebit"}}, exact{{"mpiq_method", "mpi"}};
  expect_error_everywhere(sum(on, method), "no communicator left");
  EXPECT_EQ(heard, 1) << "the error of the call itself";
  expect_error_everywhere(sum(on, rank == 0 ? static_cast<MPI_Info>(method) : MPI_INFO_NULL),
                          "no communicator left");
  expect_error_everywhere(
      MPIQ_Allreduce(x.data(), y.data(), rank == 0 ? 10 : 20, MPI_FLOAT, MPI_SUM, on, MPI_INFO_NULL),
      "count 10");
  ASSERT_EQ(sum(on, exact), MPI_SUCCESS);
  expect_exact();
  refuses = false;
  MPI_Comm_free(&on);
}

TEST_F(Refused, several_vectors_are_summed_by_mpi_unless_the_call_names_a_method_or_ranks_differ) {
  MPI_Comm on = bereft(": onebit");
  void* const vectors[]{y.data(), y.data() + 7000};
  const MPI_Count counts[]{7000, 13000};
  const auto sums = [&](MPI_Count first, MPI_Info info) {
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = static_cast<float>((i * 17 + static_cast<std::size_t>(rank) * 31) % 101);
    const MPI_Count all[]{first, counts[1]};
    return MPIQ_Allreduce_group(2, nullptr, vectors, all, nullptr, MPI_FLOAT, MPI_SUM, on, info);
  };
  ASSERT_EQ(sums(counts[0], MPI_INFO_NULL), MPI_SUCCESS);
  expect_exact();
  expect_error_everywhere(sums(counts[0], Info{{"mpiq_method", "int8"}}), "no communicator left");
  expect_error_everywhere(sums(rank == 0 ? 6999 : 7000, MPI_INFO_NULL), "MPIQ_Allreduce_group");
  ASSERT_EQ(sums(counts[0], MPI_INFO_NULL), MPI_SUCCESS);
  expect_exact();
  refuses = false;
  MPI_Comm_free(&on);
}

// MPI would sum them one by one: ranks with different vectors would wait for each other for ever.
TEST_F(Refused, several_vectors_are_an_error_if_ranks_have_other_versions_or_one_is_outside_mpi) {
  const auto sums = [&](MPI_Comm on, bool odd) {
    void* const vectors[]{x.data(), x.data() + 7000, x.data() + 15000};
    const MPI_Count counts[]{odd ? 6000 : 7000, 8000, 5000};
    return MPIQ_Allreduce_group(odd ? 2 : 3, nullptr, vectors, counts, nullptr, MPI_FLOAT, MPI_SUM, on,
                                Info{{"mpiq_method", "int8"}});
  };
  const bool last = rank == size - 1;
  MPI_Comm on = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &on);
  MPI_Comm_set_errhandler(on, MPI_ERRORS_RETURN);
  has_other_version = last;
  for (int round = 0; round < 2; ++round) expect_error_everywhere(sums(on, last), "same version");
  EXPECT_FALSE(has_other_version);
  ASSERT_EQ(sum(on, MPI_INFO_NULL), MPI_SUCCESS);
  expect_exact();
  MPI_Comm_free(&on);
  for (const bool all : {false, true}) {
    MPI_Comm_dup(comm, &on);
    MPI_Comm_set_errhandler(on, MPI_ERRORS_RETURN);
    is_outside = all || last;
    const int code = sums(on, last);
    EXPECT_NE(code, MPI_SUCCESS);  // before MPI_Init errors have no texts
    if (!is_outside) expect_error_everywhere(code, "another rank cannot use its");
    is_outside = false;
    ASSERT_EQ(sum(on, Info{{"mpiq_method", "raw"}}), MPI_SUCCESS);
    expect_exact();
    MPI_Comm_free(&on);
  }
}

TEST_F(Refused, other_collectives_are_made_by_mpi_unless_the_call_names_a_method) {
  MPI_Comm on = bereft("reduce_scatter 0-: onebit; allgather 0-: int8; bcast 0-: int8; reduce 0-: onebit");
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((i * 17 + static_cast<std::size_t>(rank) * 31) % 101);
  const int n = static_cast<int>(x.size()), each = n / size;
  struct Function {
    const char* name;
    std::function<int(float* out, MPI_Info)> of_library;
    std::function<int(float* out)> of_mpi;
  };
  const Function functions[]{
      {"reduce_scatter",
       [&](float* out, MPI_Info info) {
         return MPIQ_Reduce_scatter_block(x.data(), out, each, MPI_FLOAT, MPI_SUM, on, info);
       },
       [&](float* out) { return MPI_Reduce_scatter_block(x.data(), out, each, MPI_FLOAT, MPI_SUM, comm); }},
      {"allgather",
       [&](float* out, MPI_Info info) {
         return MPIQ_Allgather(x.data(), each, MPI_FLOAT, out, each, MPI_FLOAT, on, info);
       },
       [&](float* out) { return MPI_Allgather(x.data(), each, MPI_FLOAT, out, each, MPI_FLOAT, comm); }},
      {"bcast",
       [&](float* out, MPI_Info info) {
         std::copy(x.begin(), x.end(), out);
         return MPIQ_Bcast(out, n, MPI_FLOAT, 0, on, info);
       },
       [&](float* out) {
         std::copy(x.begin(), x.end(), out);
         return MPI_Bcast(out, n, MPI_FLOAT, 0, comm);
       }},
      {"reduce",
       [&](float* out, MPI_Info info) {
         return MPIQ_Reduce(x.data(), out, n, MPI_FLOAT, MPI_SUM, 0, on, info);
       },
       [&](float* out) { return MPI_Reduce(x.data(), out, n, MPI_FLOAT, MPI_SUM, 0, comm); }}};
  for (int round = 0; round < 2; ++round)
    for (const Function& f : functions) {
      std::vector<float> found(x.size()), expected = found;
      ASSERT_EQ(f.of_library(found.data(), MPI_INFO_NULL), MPI_SUCCESS) << f.name;
      ASSERT_EQ(f.of_mpi(expected.data()), MPI_SUCCESS);
      EXPECT_EQ(found, expected) << f.name;
      expect_error_everywhere(f.of_library(found.data(), Info{{"mpiq_method", "int8"}}),
                              "no communicator left");
    }
  refuses = false;
  MPI_Comm_free(&on);
}

TEST_F(Refused, requests_half_types_and_sparse_reductions_are_errors_on_all_ranks) {
  MPI_Comm on = bereft(": onebit");
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  MPI_Datatype half = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  expect_error_everywhere(
      MPIQ_Iallreduce(x.data(), y.data(), 100, MPI_FLOAT, MPI_SUM, on, MPI_INFO_NULL, &request),
      "no communicator left");
  expect_error_everywhere(
      MPIQ_Allreduce_init(x.data(), y.data(), 100, MPI_FLOAT, MPI_SUM, on, MPI_INFO_NULL, &request),
      "no communicator left");
  EXPECT_EQ(request, MPIQ_REQUEST_NULL);
  expect_error_everywhere(MPIQ_Allreduce(x.data(), y.data(), 100, half, MPI_SUM, on, MPI_INFO_NULL),
                          "no communicator left");
  const std::int64_t index = 7;
  expect_error_everywhere(MPIQ_Sparse_allreduce(1, &index, x.data(), 1, &index, y.data(), 1, MPI_FLOAT,
                                                MPI_SUM, on, MPI_INFO_NULL),
                          "no communicator left");
  refuses = false;
  MPI_Comm_free(&on);
}

TEST_F(Refused, schemes_go_on_with_the_sums_of_mpi_unless_the_call_names_one) {
  MPI_Comm on = bereft(": lowrank");
  const std::size_t side = 100;
  std::vector<float> product(side * side);
  // So many columns that the matrix is summed.
  const std::vector<float> u(side * 200, 1.0F), v(side * 200, static_cast<float>(rank + 1));
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(MPIQ_Factors_allreduce(u.data(), v.data(), side, side, 200, product.data(), MPI_FLOAT, on),
              MPI_SUCCESS);
    for (const float element : product)
      ASSERT_EQ(element, 200.0F * static_cast<float>(size * (size + 1) / 2));
  }
  ASSERT_EQ(sum(on, Info{{"mpiq_key", "k"}, {"mpiq_matrix", "100x200"}}), MPI_SUCCESS);
  expect_exact();
  expect_error_everywhere(
      sum(on, Info{{"mpiq_method", "lowrank"}, {"mpiq_key", "k"}, {"mpiq_matrix", "100x200"}}),
      "no communicator left");
  int keys = -1;
  ASSERT_EQ(MPIQ_Residual_list(on, 0, nullptr, &keys), MPI_SUCCESS);
  EXPECT_EQ(keys, 0);
  refuses = false;
  MPI_Comm_free(&on);
}

}  // namespace
}  // namespace mq::test
