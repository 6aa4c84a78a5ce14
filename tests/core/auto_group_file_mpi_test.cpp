// auto for several vectors in one call, with a file that names the method (tests/core/CMakeLists.txt), so
// that what is compressed depends on the data alone: the limit holds for each vector, however short it is.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/group.hpp"

namespace mq::test {
namespace {

constexpr std::size_t kLong = 50000, kShort = 400;

class AutoGroupFile : public Group {
 protected:
  std::uint64_t compressed() const { return stats().compressed_calls; }
  // One element in a hundred is not zero, so topk loses nothing.
  static std::vector<float> sparse(std::size_t n, float scale) {
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; i += 100) x[i] = scale;
    return x;
  }
  // The greatest relative error of a vector of `calls` calls, and how many of them the codecs have reduced.
  struct Run {
    double worst = 0;
    std::uint64_t compressed = 0;
  };
  Run run(const std::vector<std::vector<float>>& x, const std::string& limit, int calls,
          const std::string& prefix = "") const {
    const std::uint64_t before = compressed();
    Run run;
    for (int i = 0; i < calls; ++i) {
      Vectors<float> v(x);
      EXPECT_EQ(sum(v, Info{{"mpiq_method", "auto(error=" + limit + ")"}}, prefix), MPI_SUCCESS);
      for (std::size_t k = 0; k < x.size(); ++k) {
        EXPECT_TRUE(same_on_all_ranks(v.y[k]));
        run.worst = std::max(run.worst, relative_error(v.y[k], exact(x[k])));
      }
    }
    run.compressed = compressed() - before;
    return run;
  }
};

TEST_F(AutoGroupFile, a_short_vector_that_loses_much_makes_the_call_exact) {
  // Beside the long vector nothing of the short one is seen: it is a thousandth as long (L2).
  const Run dense = run({sparse(kLong, 1000), input<float>(kShort)}, "0.05", 10);
  EXPECT_LE(dense.worst, 1e-6);
  EXPECT_EQ(dense.compressed, 0u);
  const Run all_sparse = run({sparse(kLong, 1000), sparse(kShort, 1)}, "0.05", 10);
  EXPECT_LE(all_sparse.worst, 0.05);
  EXPECT_EQ(all_sparse.compressed, 10u);
}

// Its samples lose little, but what the ranks bring cancels out.
TEST_F(AutoGroupFile, a_short_vector_that_cancels_out_is_found_by_comparing_the_result) {
  std::vector<float> x = input<float>(kShort);
  MPI_Bcast(x.data(), static_cast<int>(kShort), MPI_FLOAT, 0, comm);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (rank == 0 ? 1.0F : rank == 1 ? -1.0F : 0.0F) * x[i] + 0.001F;
  std::vector<float> longer = input<float>(kLong);
  for (float& v : longer) v *= 1000;
  const Run cancels = run({longer, x}, "0.04", 10);
  EXPECT_LE(cancels.worst, 0.04);
}

TEST_F(AutoGroupFile, a_vector_with_nan_makes_the_call_exact) {
  std::vector<std::vector<float>> x{input<float>(kLong), input<float>(kShort)};
  EXPECT_EQ(run(x, "0.04", 5).compressed, 5u);
  if (rank == size - 1) x[1].assign(kShort, NAN);
  Vectors<float> v(x);
  const std::uint64_t before = compressed();
  ASSERT_EQ(sum(v, Info{{"mpiq_method", "auto(error=0.04)"}}), MPI_SUCCESS);
  EXPECT_EQ(compressed(), before);
  EXPECT_TRUE(std::isnan(v.y[1][7]));
  EXPECT_LE(relative_error(v.y[0], exact(x[0])), 1e-6);
}

TEST_F(AutoGroupFile, feedback_needs_keys_and_every_vector_owes_little) {
  std::vector<std::vector<float>> x{input<float>(kLong), input<float>(kShort)};
  const Run without = run(x, "feedback", 5);
  EXPECT_EQ(without.compressed, 0u);
  EXPECT_LE(without.worst, 1e-6);
  // What a call leaves out comes with the next ones.
  std::vector<std::vector<double>> got{std::vector<double>(kLong), std::vector<double>(kShort)};
  constexpr int kCalls = 30;
  const std::uint64_t before = compressed();
  for (int i = 0; i < kCalls; ++i) {
    Vectors<float> v(x);
    ASSERT_EQ(sum(v, Info{{"mpiq_method", "auto(error=feedback)"}}, "layer"), MPI_SUCCESS);
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t n = 0; n < v.y[k].size(); ++n) got[k][n] += static_cast<double>(v.y[k][n]) / kCalls;
  }
  EXPECT_EQ(compressed() - before, static_cast<std::uint64_t>(kCalls));
  for (std::size_t k = 0; k < 2; ++k) {
    const std::vector<float> mean(got[k].begin(), got[k].end());
    EXPECT_LE(relative_error(mean, exact(x[k])), 0.02) << k;
  }
  // A vector that became much shorter (L2) than its residual: the call is exact, and what waits stays there.
  std::vector<std::vector<float>> faint = x;
  for (float& v : faint[1]) v *= 1e-6F;
  const Run owing = run(faint, "feedback", 3, "layer");
  EXPECT_EQ(owing.compressed, 0u);
  EXPECT_LE(owing.worst, 1e-6);
  // A layer that is not used does not keep the others from being compressed.
  std::vector<std::vector<float>> unused = x;
  unused[1].assign(kShort, 0);
  EXPECT_EQ(run(unused, "feedback", 3, "layer").compressed, 3u);
}

// A key names no residual where the limit is of each result.
TEST_F(AutoGroupFile, keys_have_no_meaning_with_a_limit_for_each_result) {
  const std::vector<std::vector<float>> x{input<float>(kLong), input<float>(kShort)};
  const Run with_keys = run(x, "0.04", 5, "k");
  EXPECT_EQ(with_keys.compressed, 5u);
  EXPECT_LE(with_keys.worst, 0.04);
  EXPECT_EQ(stats().residual_bytes, 0u);
}

TEST_F(AutoGroupFile, requests_take_the_method_of_the_file_and_keep_the_limit) {
  std::vector<std::vector<float>> x{sparse(kLong, 1000), sparse(kShort, 1)};
  const Info info{{"mpiq_method", "auto(error=0.05)"}};
  Vectors<float> v(x);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Allreduce_group_init(2, v.in().data(), v.out().data(), v.counts().data(), nullptr, MPI_FLOAT,
                                      MPI_SUM, comm, info, &request),
            MPI_SUCCESS);
  for (const bool is_sparse : {true, false, true}) {
    const std::vector<float> now = is_sparse ? sparse(kShort, 1) : input<float>(kShort);
    std::copy(now.begin(), now.end(), v.x[1].begin());
    std::uint64_t before = compressed();
    ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    EXPECT_EQ(compressed() - before, is_sparse ? 1u : 0u);
    for (std::size_t k = 0; k < 2; ++k) EXPECT_LE(relative_error(v.y[k], exact(v.x[k])), 0.05);
    before = compressed();
    ASSERT_EQ(start_and_wait(v, info), MPI_SUCCESS);
    EXPECT_EQ(compressed() - before, is_sparse ? 1u : 0u);
    for (std::size_t k = 0; k < 2; ++k) EXPECT_LE(relative_error(v.y[k], exact(v.x[k])), 0.05);
  }
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
}

TEST_F(AutoGroupFile, lines_of_groups_are_for_groups_of_about_as_many_vectors) {
  // 64 vectors of as many bytes together, and a single one.
  EXPECT_EQ(run(std::vector<std::vector<float>>(64, sparse(800, 1)), "0.05", 3).compressed, 0u);
  const std::uint64_t before = compressed();
  const std::vector<float> x = sparse(kLong, 1);
  std::vector<float> y(x.size());
  ASSERT_EQ(one(x, y, Info{{"mpiq_method", "auto(error=0.05)"}}), MPI_SUCCESS);
  EXPECT_EQ(compressed(), before);
}

}  // namespace
}  // namespace mq::test
