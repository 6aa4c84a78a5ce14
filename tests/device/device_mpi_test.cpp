// Calls with vectors in the memory of a GPU that fails, is reset or has no memory left, and what calls leave
// there: only the tests' driver tells and does that. device_calls_mpi_test.cpp, which is linked to this, has
// the calls that hold with any driver; what they leave is looked at here, too.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <string>
#include <vector>

#include "tests/device/device_calls.hpp"

namespace mq::test {
namespace {

using fake::Array;

// After every test of the program, whatever file it is in.
class LeakCheck : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    EXPECT_EQ(fake_cuda_living("device bytes"), 0) << "device memory is left by " << test.name();
  }
};
// Before main(), which leaves listeners alone that are not GoogleTest's own. It owns this one.
const bool is_checked = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new LeakCheck);
  return true;
}();

class DeviceFailures : public DeviceCalls {
 protected:
  void SetUp() override {
    fake_cuda_forget();
    DeviceCalls::SetUp();
  }
  void TearDown() override {
    fake_cuda_forget();
    DeviceCalls::TearDown();
  }
};

TEST_F(DeviceFailures, a_persistent_request_makes_nothing_more_at_a_start) {
  if (size == 1) return;
  const std::size_t n = 5000;
  Array<float> send(input<float>(n)), receive(n);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Allreduce_init(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm,
                                Info{{"mpiq_method", "onebit"}}, &request),
            MPI_SUCCESS);
  const auto living = [] {
    return std::array{fake_cuda_living("device"), fake_cuda_living("pinned"), fake_cuda_living("events"),
                      fake_cuda_living("streams")};
  };
  const auto before = living();
  for (int call = 0; call < 3; ++call) {
    ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    EXPECT_EQ(living(), before) << call;
  }
  EXPECT_EQ(fake_cuda_ran(nullptr) > 0, runs_kernels());
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
}

TEST_F(DeviceFailures, a_key_stays_good_after_a_failure_of_one_rank) {
  if (size == 1) return;
  const auto x = input<float>(2000);
  const Info info{{"mpiq_method", "threshold(quantile=0.9)"}, {"mpiq_key", "k"}};
  (void)sum(x, true, true, info);
  Array<float> send(x), receive(2000);
  if (rank == size - 1) fake_cuda_fail("cuEventQuery", 1, 999);
  const int code = MPIQ_Allreduce(send.data(), receive.data(), 2000, MPI_FLOAT, MPI_SUM, comm, info);
  fake_cuda_forget();
  EXPECT_TRUE(rank != size - 1 || code != MPI_SUCCESS);
  for (int call = 0; call < 2; ++call) EXPECT_TRUE(same_on_all_ranks(sum(x, true, true, info)));
}

TEST_F(DeviceFailures, a_gpu_that_fails_in_a_flush_fails_it_on_all_ranks) {
  if (size == 1) return;
  const std::size_t n = 2000;
  const auto x = input<float>(n);
  const Info info{{"mpiq_method", "onebit"}, {"mpiq_key", "k"}};
  // While the residual is read; while the sum is delivered.
  for (const bool there : {true, false}) {
    (void)sum(x, there, there, info);
    Array<float> flushed(n);
    if (rank == size - 1) fake_cuda_fail("cuMemcpyAsync", 0, 2);
    const int code = MPIQ_Residual_flush(flushed.data(), static_cast<MPI_Count>(n), MPI_FLOAT, comm, "k");
    fake_cuda_forget();
    EXPECT_NE(code, MPI_SUCCESS) << "rank " << rank << " " << there;
    still_works();
    reset();
  }
}

TEST_F(DeviceFailures, a_gpu_without_memory_is_staged) {
  if (size == 1) return;
  for (const char* const function : {"cuMemAlloc_v2", "cuMemHostAlloc"}) {
    const std::size_t n = 2000;
    const Info info{{"mpiq_method", "onebit"}, {"mpiq_key", "k"}};
    const auto calls = [&](bool on_device) {
      std::vector<std::vector<float>> seen;
      const auto x = input<float>(n);
      for (int call = 0; call < 4; ++call) {
        Vector<float> send(x, on_device), receive(std::vector<float>(n), on_device);
        if (on_device && rank == size - 1 && call % 3 != 1) fake_cuda_fail(function, 0, 2);
        EXPECT_EQ(MPIQ_Allreduce(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm, info),
                  MPI_SUCCESS);
        fake_cuda_forget();
        seen.push_back(receive.get());
      }
      seen.push_back(residual("k", n));
      reset();
      return seen;
    };
    EXPECT_EQ(calls(false), calls(true)) << function;
  }
}

TEST_F(DeviceFailures, a_failing_gpu_is_an_error_on_all_ranks_and_never_a_hang) {
  if (size == 1) return;
  const std::size_t n = 2000;
  const auto x = input<float>(n);
  const Info info{{"mpiq_method", "onebit/direct"}};
  for (const char* const function :
       {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuLaunchKernel",
        "cuEventRecord", "cuEventQuery", "cuPointerGetAttributes"})
    for (const long nth : {1, 2, 5}) {
      Array<float> send(x), receive(n);
      fake_cuda_forget();
      if (rank == size - 1) fake_cuda_fail(function, nth, 2);
      const int code = MPIQ_Allreduce(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm, info);
      fake_cuda_forget();
      int failed = code != MPI_SUCCESS, any = 0;
      MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm);
      if (any == 0) {
        EXPECT_TRUE(same_on_all_ranks(receive.get())) << function << " " << nth;
      }
      still_works();
    }
}

}  // namespace
}  // namespace mq::test
