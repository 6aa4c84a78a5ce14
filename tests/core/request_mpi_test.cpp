// Non-blocking and persistent calls under real MPI: the same bits as blocking ones, in any number and order
// of completion, on several communicators; misuse; and no allocation once a call has been made before.
// (long on purpose: all tests share the counting of allocations)

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/plan/plan.hpp"
#include "tests/core/requests.hpp"

namespace mq::test {
std::size_t allocations = 0;
}

// The library is linked statically here, so these are its operators too.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++mq::test::allocations;
  if (void* const p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace mq::test {
namespace {

std::string method_of(const kernels::Codec& codec, const PlanRow& plan) {
  return std::string(codec.name) + "/" + std::string(plan.name);
}

// Processor time, so that a busy machine does not matter. Rank 1 comes late.
TEST_F(Requests, with_MPIQ_WAIT_a_rank_that_waits_uses_little_of_its_core) {
  if (const char* const wait = std::getenv("MPIQ_WAIT"); wait == nullptr || std::string_view(wait) != "sleep")
    GTEST_SKIP() << "only with MPIQ_WAIT=sleep";
  const Info info{{"mpiq_method", "int8"}};
  const std::vector<float> x(100000, 1.0F);
  std::vector<float> y(x.size());
  (void)blocking(x, info);  // communicators are made now
  for (const bool by_request : {false, true}) {
    MPI_Barrier(comm);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const std::clock_t before = std::clock();
    if (by_request) {
      MPIQ_Request request = start(x, y, info, comm);
      EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    } else {
      y = blocking(x, info);
    }
    const double used_s = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    if (rank != 1) {
      EXPECT_LT(used_s, 0.15) << (by_request ? "request" : "blocking");
    }
    EXPECT_EQ(y[0], static_cast<float>(size));
  }
}

TEST_F(Requests, non_blocking_and_persistent_calls_give_the_bits_of_blocking_ones) {
  for (const kernels::Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const std::size_t n : {1, 100, 4097, 200000}) {
        if (is_swept_elsewhere(plan)) continue;
        const std::string method = method_of(codec, plan);
        const Info info{{"mpiq_method", method}};
        const std::vector<float> x = input<float>(n);
        const std::vector<float> expected = blocking(x, info);
        std::vector<float> y(n), z(n);
        MPIQ_Request once = start(x, y, info, comm), again = MPIQ_REQUEST_NULL;
        ASSERT_EQ(MPIQ_Allreduce_init(x.data(), z.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, comm,
                                      info, &again),
                  MPI_SUCCESS);
        ASSERT_EQ(MPIQ_Wait(&once), MPI_SUCCESS);
        EXPECT_EQ(once, MPIQ_REQUEST_NULL);
        EXPECT_TRUE(!repeats(codec) || same_bits(y, expected)) << method << " n=" << n;
        for (int round = 0; round < 3; ++round) {
          std::fill(z.begin(), z.end(), 0.0F);
          ASSERT_EQ(MPIQ_Start(&again), MPI_SUCCESS);
          int flag = 0;
          while (flag == 0) ASSERT_EQ(MPIQ_Test(&again, &flag), MPI_SUCCESS);
          EXPECT_NE(again, MPIQ_REQUEST_NULL);
          EXPECT_TRUE(!repeats(codec) || same_bits(z, expected))
              << method << " n=" << n << " round " << round;
          EXPECT_TRUE(same_on_all_ranks(z)) << method;
        }
        ASSERT_EQ(MPIQ_Request_free(&again), MPI_SUCCESS);
        EXPECT_EQ(again, MPIQ_REQUEST_NULL);
      }
}

TEST_F(Requests, feedback_carries_through_persistent_calls_as_through_blocking_ones) {
  for (const kernels::Codec& codec : kernels::codecs()) {
    const std::size_t n = 70000;
    const std::string name(codec.name);
    const Info a{{"mpiq_method", name}, {"mpiq_key", name + " blocking"}},
        b{{"mpiq_method", name}, {"mpiq_key", name + " persistent"}};
    const std::vector<float> x = input<float>(n);
    std::vector<float> y(n);
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, comm, b,
                                  &request),
              MPI_SUCCESS);
    for (int t = 0; t < 5; ++t) {
      const std::vector<float> expected = blocking(x, a);
      ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      EXPECT_TRUE(!repeats(codec) || same_bits(y, expected)) << name << " call " << t;
    }
    ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  }
}

TEST_F(Requests, any_number_in_flight_completed_in_any_order_with_blocking_and_exact_calls_between) {
  const std::size_t many = size <= 2 ? 150 : 40;  // more than there are windows of tags
  const std::size_t n = 3000;
  const Info onebit{{"mpiq_method", "onebit"}}, exact{{"mpiq_method", "mpi"}},
      bf16{{"mpiq_method", "bf16/direct"}};
  const MPI_Info infos[]{onebit, exact, bf16};
  std::vector<std::vector<float>> x, y(many, std::vector<float>(n)), expected;
  std::vector<MPIQ_Request> requests;
  for (std::size_t i = 0; i < many; ++i) {
    x.push_back(make_input<float>(Input::normal, n, seed() + 100 * i + static_cast<std::uint64_t>(rank)));
    expected.push_back(blocking(x[i], infos[i % 3]));
  }
  for (std::size_t i = 0; i < many; ++i) {
    requests.push_back(start(x[i], y[i], infos[i % 3], comm));
    if (i % 17 == 5) {
      EXPECT_TRUE(same_bits(blocking(x[0], onebit), expected[0]));
    }
  }
  for (std::size_t k = 0; k < many; ++k) {
    // Each rank in an order of its own.
    const std::size_t i = (k * 7 + static_cast<std::size_t>(rank) * 13) % many;
    ASSERT_EQ(MPIQ_Wait(&requests[i]), MPI_SUCCESS);
  }
  for (MPIQ_Request& r : requests) ASSERT_EQ(MPIQ_Wait(&r), MPI_SUCCESS);
  for (std::size_t i = 0; i < many; ++i) EXPECT_TRUE(same_bits(y[i], expected[i])) << i;
}

TEST_F(Requests, ranks_that_wait_on_different_communicators_help_each_other_on) {
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &other);
  const Info info{{"mpiq_method", "onebit/direct"}};
  const std::vector<float> x = input<float>(300000);
  const std::vector<float> expected = blocking(x, info);
  std::vector<float> y(x.size()), z(x.size());
  MPIQ_Request a = start(x, y, info, comm), b = start(x, z, info, other);
  MPIQ_Request* const first = rank % 2 == 0 ? &a : &b;
  MPIQ_Request* const second = rank % 2 == 0 ? &b : &a;
  ASSERT_EQ(MPIQ_Wait(first), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Wait(second), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(y, expected));
  EXPECT_TRUE(same_bits(z, expected));
  MPI_Comm_free(&other);
}

TEST_F(Requests, calls_that_mpi_reduces_work_too) {
  std::vector<int> i(100, rank + 1), sum(100);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  for (const MPI_Comm on : {comm, MPI_COMM_SELF}) {
    ASSERT_EQ(MPIQ_Iallreduce(i.data(), sum.data(), 100, MPI_INT, MPI_MAX, on, MPI_INFO_NULL, &request),
              MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    EXPECT_EQ(sum[99], on == comm ? size : rank + 1);
    ASSERT_EQ(MPIQ_Allreduce_init(i.data(), sum.data(), 100, MPI_INT, MPI_SUM, on, MPI_INFO_NULL, &request),
              MPI_SUCCESS);
    for (int round = 0; round < 2; ++round) {
      ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      EXPECT_EQ(sum[99], on == comm ? size * (size + 1) / 2 : rank + 1);
    }
    ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  }
}

TEST_F(Requests, differing_calls_fail_on_all_ranks_when_they_are_completed) {
  if (size == 1) return;
  std::vector<float> x(2000, 1.0F), y(2000);
  const bool odd = rank == size - 1;
  const Info onebit{{"mpiq_method", "onebit"}}, bf16{{"mpiq_method", "bf16"}}, bad{{"mpiq_method", "twobit"}};
  MPIQ_Request request = start(x, y, odd ? bf16 : onebit, comm);
  expect_error_everywhere(MPIQ_Wait(&request), "bf16");
  EXPECT_EQ(request, MPIQ_REQUEST_NULL);
  request = start(x, y, odd ? bad : onebit, comm);
  expect_error_everywhere(MPIQ_Wait(&request), odd ? "twobit" : "unusable info value");
  expect_error_everywhere(
      MPIQ_Allreduce_init(x.data(), y.data(), odd ? 1999 : 2000, MPI_FLOAT, MPI_SUM, comm, onebit, &request),
      "count 1999");
  EXPECT_EQ(request, MPIQ_REQUEST_NULL);
}

TEST_F(Requests, persistent_requests_started_in_different_orders_are_an_error_and_not_a_hang) {
  if (size == 1) return;
  std::vector<float> x(5000, 1.0F), y(5000), z(5000);
  const Info info{{"mpiq_method", "onebit"}};
  MPIQ_Request pair[2]{};
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), 5000, MPI_FLOAT, MPI_SUM, comm, info, &pair[0]),
            MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), z.data(), 4000, MPI_FLOAT, MPI_SUM, comm, info, &pair[1]),
            MPI_SUCCESS);
  const int first = rank == 0 ? 0 : 1;
  ASSERT_EQ(MPIQ_Start(&pair[first]), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Start(&pair[1 - first]), MPI_SUCCESS);
  for (MPIQ_Request& r : pair) expect_error_everywhere(MPIQ_Wait(&r), "count 4000");
  for (MPIQ_Request& r : pair) {  // started alike they work again
    ASSERT_EQ(MPIQ_Start(&r), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&r), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Request_free(&r), MPI_SUCCESS);
  }
  EXPECT_EQ(z[3999], static_cast<float>(size));
}

TEST_F(Requests, a_key_serves_one_call_at_a_time) {
  if (size == 1) return;
  const Info info{{"mpiq_method", "onebit"}, {"mpiq_key", "w"}};
  const std::vector<float> x = input<float>(5000);
  std::vector<float> y(5000), z(5000);
  MPIQ_Request first = start(x, y, info, comm), second = start(x, z, info, comm);
  expect_error_everywhere(MPIQ_Wait(&second), "in use by a call in flight");
  ASSERT_EQ(MPIQ_Wait(&first), MPI_SUCCESS);
  second = start(x, z, info, comm);
  ASSERT_EQ(MPIQ_Wait(&second), MPI_SUCCESS);
}

TEST_F(Requests, misuse_is_an_error) {
  std::vector<float> x(100, 1.0F), y(100);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  int flag = 0;
  EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS) << "nothing to wait for";
  EXPECT_EQ(MPIQ_Test(&request, &flag), MPI_SUCCESS);
  EXPECT_EQ(flag, 1);
  EXPECT_NE(MPIQ_Start(&request), MPI_SUCCESS);
  EXPECT_NE(MPIQ_Request_free(&request), MPI_SUCCESS);
  EXPECT_NE(MPIQ_Test(&request, nullptr), MPI_SUCCESS);
  EXPECT_NE(MPIQ_Wait(nullptr), MPI_SUCCESS);
  request = start(x, y, MPI_INFO_NULL, comm);
  EXPECT_NE(MPIQ_Start(&request), MPI_SUCCESS) << "not persistent";
  EXPECT_NE(MPIQ_Request_free(&request), MPI_SUCCESS) << "active";
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), 100, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL, &request),
            MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
  EXPECT_NE(MPIQ_Start(&request), MPI_SUCCESS) << "active already";
  EXPECT_NE(MPIQ_Request_free(&request), MPI_SUCCESS) << "active";
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  EXPECT_EQ(y[99], static_cast<float>(size));
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
}

TEST_F(Requests, outlive_their_communicator) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &copy);
  std::vector<float> x(5000, 1.0F), y(5000);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), 5000, MPI_FLOAT, MPI_SUM, copy,
                                Info{{"mpiq_method", "onebit"}}, &request),
            MPI_SUCCESS);
  if (size > 1) MPI_Comm_free(&copy);
  ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  EXPECT_EQ(y[4999], static_cast<float>(size));
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  if (size == 1) MPI_Comm_free(&copy);
}

TEST_F(Requests, nothing_is_allocated_after_the_first_call) {
  if (size == 1) return;  // MPI's own calls
  const std::size_t n = 300000;
  const std::vector<float> x = input<float>(n);
  std::vector<float> y(n);
  for (const kernels::Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans()) {
      if (is_swept_elsewhere(plan)) continue;
      const Info info{{"mpiq_method", method_of(codec, plan)},
                      {"mpiq_key", "a key with a long name " + method_of(codec, plan)}};
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), static_cast<MPI_Count>(n / 2), MPI_FLOAT, MPI_SUM,
                                    comm, Info{{"mpiq_method", method_of(codec, plan)}}, &request),
                MPI_SUCCESS);
      std::size_t before = 0;
      MPIQ_Stats was{};
      for (int t = 0; t < 3; ++t) {
        if (t == 1) {
          before = allocations;
          was = stats();
        }
        ASSERT_EQ(
            MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, comm, info),
            MPI_SUCCESS);
        ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
        ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      }
      EXPECT_EQ(allocations, before) << method_of(codec, plan);
      const MPIQ_Stats now = stats();
      EXPECT_EQ(now.scratch_bytes, was.scratch_bytes) << method_of(codec, plan);
      EXPECT_EQ(now.residual_bytes, was.residual_bytes) << method_of(codec, plan);
      ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
    }
}

TEST_F(Requests, use_the_memory_of_those_that_are_over_and_give_back_what_nobody_needs_any_more) {
  if (size == 1) return;  // MPI's own calls
  const std::vector<float> x = input<float>(100000);
  std::vector<std::vector<float>> y(8, std::vector<float>(x.size()));
  const Info info{{"mpiq_method", "int8"}};
  const auto held_after = [&](std::size_t together) {
    std::vector<MPIQ_Request> requests;
    for (std::size_t i = 0; i < together; ++i) requests.push_back(start(x, y[i], info, comm));
    for (MPIQ_Request& request : requests) EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    return stats().scratch_bytes;
  };
  const std::uint64_t none = stats().scratch_bytes, one = held_after(1) - none;
  EXPECT_GT(one, 0U);
  EXPECT_EQ(held_after(1), none + one);
  const std::uint64_t many = held_after(y.size());
  EXPECT_EQ(many, none + y.size() * one);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(held_after(y.size()), many);
  for (int i = 0; i < 80; ++i) (void)held_after(1);
  EXPECT_EQ(stats().scratch_bytes, none + one);
}

TEST_F(Requests, the_first_sum_of_a_communicator_goes_on_with_calls_that_another_rank_waits_for) {
  const Info info{{"mpiq_method", "bf16"}};
  const std::vector<float> x(1 << 20, 1);
  for (const bool has_state : {false, true}) {
    MPI_Comm first = MPI_COMM_NULL, second = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    if (has_state) {
      ASSERT_EQ(MPIQ_Comm_set_policy(second, ": bf16"), MPI_SUCCESS);
    }
    std::vector<float> y(x.size()), z(x.size());
    MPIQ_Request request = start(x, y, info, first);
    const auto sum = [&] {
      return MPIQ_Allreduce(x.data(), z.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, second,
                            info);
    };
    int code = rank == 0 ? sum() : MPI_SUCCESS;
    EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    if (rank != 0) code = sum();
    EXPECT_EQ(code, MPI_SUCCESS);
    EXPECT_EQ(y, z);
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
  }
}

int handled = 0;
void count_error(MPI_Comm*, int*, ...) { ++handled; }

TEST_F(Requests, an_error_on_a_freed_communicator_is_returned_if_its_handler_said_so) {
  if (size == 1) GTEST_SKIP() << "no other rank differs";
  const Info info{{"mpiq_method", "bf16"}};
  MPI_Errhandler counting = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(&count_error, &counting);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, counting);
  MPI_Comm freed = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  MPI_Comm_set_errhandler(freed, MPI_ERRORS_RETURN);
  const std::vector<float> x(1000 + static_cast<std::size_t>(rank), 1);
  std::vector<float> y(x.size());
  MPIQ_Request request = start(x, y, info, freed);
  MPI_Comm_free(&freed);
  EXPECT_NE(MPIQ_Wait(&request), MPI_SUCCESS);
  EXPECT_EQ(handled, 0);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&counting);
}

TEST_F(Requests, a_persistent_request_outlives_its_communicator) {
  for (const MPI_Comm parent : {MPI_COMM_SELF, MPI_COMM_WORLD}) {
    MPI_Comm freed = MPI_COMM_NULL;
    MPI_Comm_dup(parent, &freed);
    const std::vector<float> x(5000, 1);
    std::vector<float> y(x.size());
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), 5000, MPI_FLOAT, MPI_SUM, freed,
                                  Info{{"mpiq_method", "bf16"}}, &request),
              MPI_SUCCESS);
    MPI_Comm_free(&freed);
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    }
    EXPECT_EQ(y[4999], parent == MPI_COMM_SELF ? 1.0F : static_cast<float>(size));
    EXPECT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  }
}

}  // namespace
}  // namespace mq::test
