// Recorded steps, sent through methods again: the sum of all results has the error of the method.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "bench/research/replay/replay.hpp"

namespace mq::bench {
namespace {

constexpr std::size_t kRows = 96, kRow = 128, kSteps = 20;

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    int id = static_cast<int>(getpid());
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    folder_ = std::filesystem::temp_directory_path() / ("mpiq_replay_" + std::to_string(id));
  }
  ~ReplayTest() override {
    recording_.reset();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) std::filesystem::remove_all(folder_);
  }
  // element(step, rank, i) of all steps and ranks.
  template <class F>
  void record(F element) {
    if (rank_ == 0) {
      std::filesystem::create_directories(folder_);
      for (std::size_t step = 0; step < kSteps; ++step)
        for (int rank = 0; rank < size_; ++rank) {
          std::vector<float> x(kRows * kRow);
          for (std::size_t i = 0; i < x.size(); ++i) x[i] = element(step, rank, i);
          std::ofstream file(folder_ / (std::to_string(step) + "-" + std::to_string(rank) + ".f32"));
          file.write(reinterpret_cast<const char*>(x.data()),
                     static_cast<std::streamsize>(x.size() * sizeof(float)));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    constexpr kernels::Element kType[] = {kernels::Element::f32};
    recording_ = *Recording::open((folder_ / "{step}-{rank}.f32").string(), size_, rank_, kType, 1);
  }
  void record_noise() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    record([&](std::size_t, int, std::size_t) { return normal(random); });
  }
  std::vector<Replayed> replay(const std::string& methods, std::size_t row = 0, bool feedback = true) {
    return Replay(*recording_, row, MPI_COMM_WORLD)
        .run(*parse_methods(methods, MethodsFor::matrices), feedback);
  }

  int rank_ = 0, size_ = 1;
  std::filesystem::path folder_;
  std::shared_ptr<const Recording> recording_;
};

TEST_F(ReplayTest, exact_methods_have_the_error_of_rounding) {
  record_noise();
  for (const Replayed& r : replay("mpi,raw")) {
    EXPECT_EQ(r.problem, "");
    EXPECT_LT(r.error, 1e-6);
    EXPECT_LT(r.first, 1e-6);
    EXPECT_EQ(r.seconds.size(), kSteps);
  }
}

TEST_F(ReplayTest, bytes_are_those_of_one_call) {
  record_noise();
  const std::vector<Replayed> got = replay("mpi,raw,bf16,onebit");
  EXPECT_TRUE(std::isnan(got[0].bytes));
  const double vector = kRows * kRow * sizeof(float);  // what each of two ranks sends the other
  EXPECT_NEAR(got[1].bytes, vector, 0.02 * vector);
  EXPECT_NEAR(got[2].bytes, vector / 2, 0.02 * vector);
  EXPECT_NEAR(got[3].bytes, vector / 32, 0.02 * vector);
}

TEST_F(ReplayTest, a_key_makes_the_sum_right_though_no_result_is) {
  record_noise();
  const Replayed with = replay("onebit")[0], without = replay("onebit", 0, false)[0];
  EXPECT_EQ(with.first, without.first);
  EXPECT_GT(with.first, 0.5);
  EXPECT_GT(without.error, 0.5);
  EXPECT_LT(with.error, 0.3);
}

TEST_F(ReplayTest, the_debt_is_in_units_of_a_step) {
  record([](std::size_t, int rank, std::size_t i) {
    return std::sin(static_cast<float>(i)) + static_cast<float>(rank);
  });
  const Replayed r =
      replay("onebit")[0];  // all steps are alike, so their sum is one of them times their number
  EXPECT_NEAR(r.debt, kSteps * r.error, 1e-6 * r.debt + 1e-9);
}

TEST_F(ReplayTest, a_matrix_has_rows_and_a_vector_is_none) {
  record([](std::size_t step, int rank, std::size_t i) {
    return static_cast<float>(1 + step) * static_cast<float>(2 + rank) *
           std::cos(static_cast<float>(i / kRow)) * std::sin(static_cast<float>(i % kRow));
  });
  const std::vector<Replayed> matrix = replay("lowrank(rank=1),bf16", kRow);
  EXPECT_EQ(matrix[0].problem, "");
  EXPECT_LT(matrix[0].error, 1e-4);  // its rank is 1
  const std::vector<Replayed> vector = replay("lowrank(rank=1),bf16");
  EXPECT_EQ(vector[0].problem, "MPI made 20 of the calls");
  EXPECT_TRUE(std::isnan(vector[0].error));
  EXPECT_EQ(vector[1].problem, "");
}

}  // namespace
}  // namespace mq::bench
