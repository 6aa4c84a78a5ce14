// Calls whose memory fails on one rank at any of its allocations: the same outcome on all ranks, a sum or an
// error, and no hang.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/sparse/sparse_case.hpp"

namespace {
long until_failure = -1;  // allocations in C++; < 0: never
bool failed = false;
}  // namespace

// The library is linked statically here, so these are its operators too.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (until_failure == 0) failed = true;
  if (until_failure >= 0 && until_failure-- == 0) throw std::bad_alloc();
  if (void* const p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace mq::test {
namespace {

TEST_F(Sparse, a_union_without_memory_on_one_rank_ends_alike_on_all) {
  constexpr MPI_Count kSize = 1000;
  const std::vector<std::int64_t> at{rank, 10 + rank, 500};
  const std::vector<float> v{1, 2, 3};
  std::vector<std::int64_t> indices(kSize);
  std::vector<float> sums(kSize);
  for (const std::string& algorithm : kAlgorithms)
    for (const auto& [used, list] : {std::pair{true, true}, {true, false}, {false, true}}) {
      // A wait for ever becomes an error that has another text.
      const Info info{{"mpiq_algorithm", algorithm}, {"mpiq_timeout", "20"}};
      long trials = 0;
      for (bool any = true; any; ++trials) {
        ASSERT_LT(trials, 1000) << algorithm;
        // A communicator whose sparse calls have no memory yet: one that was used, and a new one.
        MPI_Comm fresh = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
        MPI_Comm_set_errhandler(fresh, MPI_ERRORS_RETURN);
        std::vector<float> ones(4096, 1);
        if (used) {
          ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, ones.data(), 4096, MPI_FLOAT, MPI_SUM, fresh,
                                   Info{{"mpiq_method", "bf16"}}),
                    MPI_SUCCESS);
        }
        MPI_Count n = 0;
        failed = false;
        until_failure = rank == size - 1 ? trials : -1;
        const int code =
            MPIQ_Sparse_allreduce_union(3, at.data(), v.data(), kSize, kSize, list ? indices.data() : nullptr,
                                        sums.data(), &n, 1, MPI_FLOAT, MPI_SUM, fresh, info);
        until_failure = -1;
        int mine[2]{code != MPI_SUCCESS, failed}, all[2];
        MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        ASSERT_TRUE(all[0] == 0 || all[0] == size) << algorithm << " allocation " << trials << ": "
                                                   << (code == MPI_SUCCESS ? "no error" : text_of(code));
        if (code != MPI_SUCCESS) {
          ASSERT_EQ(text_of(code).find("mpiq_timeout"), std::string::npos) << text_of(code);
        }
        any = all[1] > 0;
        MPI_Comm_free(&fresh);
      }
      EXPECT_GT(trials, 1) << algorithm;
    }
}

TEST_F(Sparse, a_first_sum_without_memory_on_one_rank_ends_alike_on_all) {
  const auto sum = [](std::vector<float>& x, MPI_Comm on, MPI_Info info, bool by_request) {
    if (!by_request) return MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 4096, MPI_FLOAT, MPI_SUM, on, info);
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    const int code = MPIQ_Iallreduce(MPI_IN_PLACE, x.data(), 4096, MPI_FLOAT, MPI_SUM, on, info, &request);
    return code != MPI_SUCCESS ? code : MPIQ_Wait(&request);
  };
  for (const auto& [method, by_request] : {std::pair{"bf16", false},
                                           {"onebit", false},
                                           {"adaptive", false},
                                           {"topk", false},
                                           {"auto(error=0.3)", false},
                                           {"lowrank(rank=2)", false},
                                           {"lowrank(rank=2)", true}}) {
    long trials = 0;
    for (bool any = true; any; ++trials) {
      ASSERT_LT(trials, 1000) << method;
      MPI_Comm fresh = MPI_COMM_NULL;
      MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
      MPI_Comm_set_errhandler(fresh, MPI_ERRORS_RETURN);
      std::vector<float> ones(4096, 1);
      const Info info{
          {"mpiq_method", method}, {"mpiq_key", "a long name of a key"}, {"mpiq_matrix", "64x64"}};
      failed = false;
      until_failure = rank == size - 1 ? trials : -1;
      const int code = sum(ones, fresh, info, by_request);
      until_failure = -1;
      int mine[2]{code != MPI_SUCCESS, failed}, all[2];
      MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      ASSERT_TRUE(all[0] == 0 || all[0] == size)
          << method << " allocation " << trials << ": " << (code == MPI_SUCCESS ? "no error" : text_of(code));
      any = all[1] > 0;
      ASSERT_TRUE(any || all[0] == 0) << method << ": " << text_of(code);
      MPI_Comm_free(&fresh);
    }
    EXPECT_GT(trials, 1) << method;
  }
}

TEST_F(Sparse, a_policy_without_memory_on_one_rank_is_set_on_all_or_on_none) {
  for (const bool used : {false, true}) {
    long trials = 0;
    for (bool any = true; any; ++trials) {
      ASSERT_LT(trials, 1000) << used;
      MPI_Comm fresh = MPI_COMM_NULL;
      MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
      MPI_Comm_set_errhandler(fresh, MPI_ERRORS_RETURN);
      if (used) {
        ASSERT_EQ(MPIQ_Comm_set_policy(fresh, ": mpi"), MPI_SUCCESS);
      }
      failed = false;
      until_failure = rank == size - 1 ? trials : -1;
      const int code = MPIQ_Comm_set_policy(fresh, "0-64K: bf16; 64K-: onebit; 8M-: topk(k=0.01)");
      until_failure = -1;
      int mine[2]{code != MPI_SUCCESS, failed}, all[2];
      MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      ASSERT_TRUE(all[0] == 0 || all[0] == size) << "allocation " << trials;
      any = all[1] > 0;
      std::vector<float> ones(4096, 1);
      EXPECT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, ones.data(), 4096, MPI_FLOAT, MPI_SUM, fresh, MPI_INFO_NULL),
                MPI_SUCCESS);
      EXPECT_EQ(ones[4095], static_cast<float>(size));
      MPI_Comm_free(&fresh);
    }
    EXPECT_GT(trials, 1);
  }
}

}  // namespace
}  // namespace mq::test
