// The time in the library is counted whichever of its functions the program is in, and all calls in flight
// share it: programs that poll, that wait for another call, or that make blocking calls meanwhile.

#include "mpi_quant/core/shared_time.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <dlfcn.h>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/base/ticks.hpp"
#include "tests/core/api.hpp"

namespace {
bool starts_fail = false, tests_fail = false;
}

// In front of MPI's own, which the library calls by these names.
extern "C" int PMPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                               MPI_Comm comm, MPI_Request* request) {
  static const auto real = reinterpret_cast<decltype(&PMPI_Iallreduce)>(dlsym(RTLD_NEXT, "PMPI_Iallreduce"));
  return starts_fail ? MPI_ERR_OTHER : real(in, out, count, type, op, comm, request);
}
#if MPI_VERSION >= 4
extern "C" int PMPI_Iallreduce_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                                 MPI_Comm comm, MPI_Request* request) {
  static const auto real =
      reinterpret_cast<decltype(&PMPI_Iallreduce_c)>(dlsym(RTLD_NEXT, "PMPI_Iallreduce_c"));
  return starts_fail ? MPI_ERR_OTHER : real(in, out, count, type, op, comm, request);
}
#endif
extern "C" int PMPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  static const auto real = reinterpret_cast<decltype(&PMPI_Test)>(dlsym(RTLD_NEXT, "PMPI_Test"));
  const int code = real(request, flag, status);
  return tests_fail ? MPI_ERR_OTHER : code;
}

namespace mq::test {
namespace {

class TimeInLibrary : public Api {
 protected:
  static constexpr int kCount = 1 << 20;
  static constexpr int kCalls = 12;
  // What a call gets that is in flight while f runs, and how long f runs, in seconds.
  struct Times {
    double share = 0, all = 0;
  };
  template <class F>
  static void add_times(Times& sum, const F& f) {
    Share share;
    share.begin();
    const double begin_s = now_s();
    f();
    sum.all += now_s() - begin_s;
    sum.share += share.end();
  }
  // One more call is in flight, so that each gets one half. Once that one is over, the other gets all.
  static void expect_a_good_part(const Times& times) {
    EXPECT_GT(times.share, 0);  // how much depends on how busy the cores are
    EXPECT_LE(times.share, 1.01 * times.all);
  }
  void start(const Info& info, MPIQ_Request& request) {
    ASSERT_EQ(MPIQ_Iallreduce(x_.data(), y_.data(), kCount, MPI_FLOAT, MPI_SUM, comm, info, &request),
              MPI_SUCCESS);
  }
  const std::vector<float> x_ = std::vector<float>(kCount, 1.0F);
  std::vector<float> y_ = std::vector<float>(kCount);
  const Info auto_{{"mpiq_method", "auto(error=0.3)"}}, bf16_{{"mpiq_method", "bf16"}};
};

// Most calls end in what MPIQ_Test does before it looks at its request.
TEST_F(TimeInLibrary, a_program_that_polls_is_in_the_library) {
  if (size == 1) GTEST_SKIP() << "on one rank no call is in flight";
  Times times;
  for (int i = 0; i < kCalls; ++i) {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    start(auto_, request);
    add_times(times, [&] {
      for (int is_over = 0; is_over == 0;) ASSERT_EQ(MPIQ_Test(&request, &is_over), MPI_SUCCESS);
    });
  }
  expect_a_good_part(times);
}

TEST_F(TimeInLibrary, a_program_that_tests_no_request_of_its_own_advances_the_others) {
  if (size == 1) GTEST_SKIP() << "on one rank no call is in flight";
  Times times;
  for (int i = 0; i < kCalls; ++i) {
    MPIQ_Request request = MPIQ_REQUEST_NULL, none = MPIQ_REQUEST_NULL;
    start(auto_, request);
    int is_over = 0;
    add_times(times, [&] {
      for (int polls = 0; polls < 200; ++polls) ASSERT_EQ(MPIQ_Test(&none, &is_over), MPI_SUCCESS);
    });
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  }
  expect_a_good_part(times);
}

TEST_F(TimeInLibrary, a_program_that_waits_for_a_call_with_a_named_method_is_in_the_library) {
  if (size == 1) GTEST_SKIP() << "on one rank no call is in flight";
  Times times;
  for (int i = 0; i < kCalls; ++i) {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    start(bf16_, request);
    add_times(times, [&] { ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS); });
  }
  expect_a_good_part(times);
}

TEST_F(TimeInLibrary, a_program_in_a_blocking_call_on_another_communicator_is_in_the_library) {
  if (size == 1) GTEST_SKIP() << "on one rank no call is in flight";
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &other);
  Times times;
  for (int i = 0; i < kCalls; ++i)
    add_times(times, [&] {
      ASSERT_EQ(MPIQ_Allreduce(x_.data(), y_.data(), kCount, MPI_FLOAT, MPI_SUM, other, bf16_), MPI_SUCCESS);
    });
  // Preparing the call is not counted, and on busy cores it may take nearly all of the time.
  EXPECT_GT(times.share, 0);
  EXPECT_LE(times.share, 1.01 * times.all);
  MPI_Comm_free(&other);
}

// What a call gets for this long in the library: all of it, or less if a call that is over still counts.
double share_of(double seconds) {
  Share share;
  share.begin();
  {
    const InLibrary in_library;
    for (const double begin_s = now_s(); now_s() - begin_s < seconds;) {
    }
  }
  return share.end();
}

// Calls that MPI makes alone: on one rank.
TEST_F(TimeInLibrary, a_call_that_mpi_fails_to_start_or_to_complete_takes_no_share_of_the_time_of_others) {
  MPI_Comm alone = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_SELF, &alone);
  const auto make = [&](MPIQ_Request& request) {
    ASSERT_EQ(
        MPIQ_Allreduce_init(x_.data(), y_.data(), kCount, MPI_FLOAT, MPI_SUM, alone, MPI_INFO_NULL, &request),
        MPI_SUCCESS);
  };
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  make(request);
  starts_fail = true;
  expect_error_everywhere(MPIQ_Start(&request), "MPI_Iallreduce");
  starts_fail = false;
  EXPECT_GE(share_of(0.01), 0.0099);
  for (const bool waits : {false, true}) {
    ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
    tests_fail = true;
    int is_over = 0;
    expect_error_everywhere(waits ? MPIQ_Wait(&request) : MPIQ_Test(&request, &is_over), "MPI_Test");
    tests_fail = false;
    EXPECT_EQ(is_over, waits ? 0 : 1);
    EXPECT_GE(share_of(0.01), 0.0099);
    ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS) << "the request is no longer active";
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  }
  EXPECT_EQ(y_[kCount - 1], 1.0F);
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  MPI_Comm_free(&alone);
}

// What a program does outside the library costs its calls nothing.
TEST_F(TimeInLibrary, work_of_the_program_is_not_counted) {
  Times times;
  add_times(times, [] {
    for (const double begin_s = now_s(); now_s() - begin_s < 0.01;) {
    }
  });
  EXPECT_EQ(times.share, 0);
}

}  // namespace
}  // namespace mq::test
