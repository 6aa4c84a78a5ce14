// Ranks that are in different collective functions of the library, and threads of one rank that are in calls
// on one communicator at once: errors on all ranks, after which the communicator still works. A hang is what
// these tests would end with.

#include <gtest/gtest.h>
#include <mpi.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

constexpr MPI_Count kCount = 1000;

struct Function {
  std::string name;  // as errors have it
  bool reduces;
  std::function<int(MPI_Comm)> call;
};

class Meetings : public Api {
 protected:
  int reduce(MPI_Comm on, const std::string& method, std::vector<float>& result) {
    result.resize(x.size());
    return MPIQ_Allreduce(x.data(), result.data(), kCount, MPI_FLOAT, MPI_SUM, on,
                          Info{{"mpiq_method", method}});
  }
  int start(MPI_Comm on, const std::string& method) {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    const int code = MPIQ_Iallreduce(x.data(), z.data(), kCount, MPI_FLOAT, MPI_SUM, on,
                                     Info{{"mpiq_method", method}}, &request);
    return code != MPI_SUCCESS ? code : MPIQ_Wait(&request);
  }
  int make_request(MPI_Comm on) {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    const int code = MPIQ_Allreduce_init(x.data(), z.data(), kCount, MPI_FLOAT, MPI_SUM, on,
                                         Info{{"mpiq_method", "onebit"}}, &request);
    if (code == MPI_SUCCESS) MPIQ_Request_free(&request);
    return code;
  }
  int scatter(MPI_Comm on, bool by_rank) {
    const std::vector<MPI_Count> counts(static_cast<std::size_t>(size), kCount / 10);
    const Info info{{"mpiq_method", "onebit"}};
    return by_rank ? MPIQ_Reduce_scatter(x.data(), z.data(), counts.data(), MPI_FLOAT, MPI_SUM, on, info)
                   : MPIQ_Reduce_scatter_block(x.data(), z.data(), counts[0], MPI_FLOAT, MPI_SUM, on, info);
  }
  int gather(MPI_Comm on, bool by_rank) {
    std::vector<MPI_Count> counts(static_cast<std::size_t>(size), kCount / 10);
    std::vector<MPI_Aint> displs;
    for (int r = 0; r < size; ++r) displs.push_back(r * (kCount / 10));
    const Info info{{"mpiq_method", "onebit"}};
    return by_rank ? MPIQ_Allgatherv(x.data(), counts[0], MPI_FLOAT, z.data(), counts.data(), displs.data(),
                                     MPI_FLOAT, on, info)
                   : MPIQ_Allgather(x.data(), counts[0], MPI_FLOAT, z.data(), counts[0], MPI_FLOAT, on, info);
  }
  int broadcast(MPI_Comm on) {
    return MPIQ_Bcast(z.data(), kCount, MPI_FLOAT, 0, on, Info{{"mpiq_method", "onebit"}});
  }
  int reduce_to_root(MPI_Comm on) {
    return MPIQ_Reduce(x.data(), z.data(), kCount, MPI_FLOAT, MPI_SUM, 0, on,
                       Info{{"mpiq_method", "onebit"}});
  }
  int reduce_group(MPI_Comm on) {
    void* const vectors[]{z.data(), z.data() + kCount / 2};
    const MPI_Count counts[]{kCount / 2, kCount / 2};
    return MPIQ_Allreduce_group(2, nullptr, vectors, counts, nullptr, MPI_FLOAT, MPI_SUM, on,
                                Info{{"mpiq_method", "onebit"}});
  }
  int reduce_sparse(MPI_Comm on) {
    return MPIQ_Sparse_allreduce(0, nullptr, nullptr, 0, nullptr, nullptr, 1, MPI_FLOAT, MPI_SUM, on,
                                 MPI_INFO_NULL);
  }
  int reduce_union(MPI_Comm on) {
    return MPIQ_Sparse_allreduce_union(0, nullptr, nullptr, kCount, kCount, nullptr, z.data(), nullptr, 1,
                                       MPI_FLOAT, MPI_SUM, on, MPI_INFO_NULL);
  }
  int flush(MPI_Comm on) { return MPIQ_Residual_flush(z.data(), kCount, MPI_FLOAT, on, "w"); }
  std::vector<Function> functions() {
    return {
        {"MPIQ_Allreduce:", true, [this](MPI_Comm on) { return reduce(on, "onebit", y); }},
        {"MPIQ_Allreduce_group:", true, [this](MPI_Comm on) { return reduce_group(on); }},
        {"MPIQ_Allreduce_init:", true, [this](MPI_Comm on) { return make_request(on); }},
        {"MPIQ_Reduce_scatter_block:", true, [this](MPI_Comm on) { return scatter(on, false); }},
        {"MPIQ_Reduce_scatter:", true, [this](MPI_Comm on) { return scatter(on, true); }},
        {"MPIQ_Allgather:", true, [this](MPI_Comm on) { return gather(on, false); }},
        {"MPIQ_Allgatherv:", true, [this](MPI_Comm on) { return gather(on, true); }},
        {"MPIQ_Reduce:", true, [this](MPI_Comm on) { return reduce_to_root(on); }},
        {"MPIQ_Bcast:", true, [this](MPI_Comm on) { return broadcast(on); }},
        {"MPIQ_Sparse_allreduce ", true, [this](MPI_Comm on) { return reduce_sparse(on); }},
        {"MPIQ_Sparse_allreduce_union", true, [this](MPI_Comm on) { return reduce_union(on); }},
        {"MPIQ_Residual_flush", false, [this](MPI_Comm on) { return flush(on); }},
        {"MPIQ_Residual_put", false, [](MPI_Comm on) { return MPIQ_Residual_put(on, 0, nullptr, nullptr); }},
        {"MPIQ_Comm_set_policy", false, [](MPI_Comm on) { return MPIQ_Comm_set_policy(on, ": mpi"); }}};
  }
  // The text of the error names both functions, or, where there is no private communicator yet, reductions as
  // such.
  void expect_both(int code, const Function& a, const Function& b, bool first_use) const {
    const std::string what = a.name + " and " + b.name + (first_use ? ", first use" : "");
    ASSERT_NE(code, MPI_SUCCESS) << what;
    for (const Function& f : {a, b}) {
      const std::string name = first_use && f.reduces && !(a.reduces && b.reduces) ? "a reduction" : f.name;
      EXPECT_NE(text_of(code).find(name), std::string::npos) << what << ": " << text_of(code);
    }
  }
  // What this rank's thread calls, and main once the thread is in its call; a, then b on the other ranks.
  // Gives both codes.
  std::pair<int, int> call_at_once(const std::function<int()>& a, const std::function<int()>& b);

  std::vector<float> x = std::vector<float>(kCount, 0.5F), y = x, z = x;
};

TEST_F(Meetings, different_functions_are_an_error_on_all_ranks_that_names_both) {
  const bool odd = rank == size - 1;
  const std::vector<Function> all = functions();
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      const Function &a = all[j % 2 ? i : j], &b = all[j % 2 ? j : i];
      MPI_Comm on = MPI_COMM_NULL;
      MPI_Comm_dup(comm, &on);
      MPI_Comm_set_errhandler(on, MPI_ERRORS_RETURN);
      expect_both(odd ? b.call(on) : a.call(on), a, b, true);
      ASSERT_EQ(reduce(on, "onebit", y), MPI_SUCCESS) << a.name << b.name;
      expect_both(odd ? b.call(on) : a.call(on), a, b, false);
      ASSERT_EQ(reduce(on, "onebit", y), MPI_SUCCESS) << a.name << b.name;
      EXPECT_EQ(y, std::vector<float>(kCount, 0.5F * static_cast<float>(size)));
      MPI_Comm_free(&on);
    }
}

TEST_F(Meetings, the_reductions_of_mpi_do_not_meet_blocking_and_non_blocking) {
  const bool odd = rank == size - 1;
  expect_error_everywhere(odd ? start(comm, "mpi") : reduce(comm, "mpi", y), "MPIQ_Iallreduce");
  EXPECT_EQ(odd ? start(comm, "onebit") : reduce(comm, "onebit", y), MPI_SUCCESS);
}

std::pair<int, int> Meetings::call_at_once(const std::function<int()>& a, const std::function<int()>& b) {
  std::pair<int, int> codes{-1, -1};
  int go = 0;
  if (rank == 0) {
    const std::uint64_t before = stats().calls;
    std::thread first([&] { codes.first = a(); });
    while (stats().calls == before) std::this_thread::yield();  // until it is in its call
    // The other ranks come when this one's second call waits, or has ended as it should not.
    std::thread second([&] { codes.second = b(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    first.join();
    second.join();
  } else {
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    codes.first = a();
    codes.second = b();
  }
  return codes;
}

TEST_F(Meetings, calls_of_two_threads_at_once_are_an_error_on_all_ranks_in_the_second) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  ASSERT_EQ(level, MPI_THREAD_MULTIPLE);
  ASSERT_EQ(reduce(comm, "onebit", y), MPI_SUCCESS);
  const std::vector<std::function<int()>> seconds{
      [&] {
        return MPIQ_Allreduce(x.data(), z.data(), kCount, MPI_FLOAT, MPI_SUM, comm,
                              Info{{"mpiq_method", "onebit"}});
      },
      [&] { return make_request(comm); },
      [&] { return start(comm, "onebit"); },
      [&] { return reduce_union(comm); },
      [&] { return flush(comm); },
  };
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    // The second thread may be kept from its call until the first is over; then both are good, everywhere.
    bool together = false;
    for (int trial = 0; trial < 50 && !together; ++trial) {
      const auto codes = call_at_once([&] { return reduce(comm, "onebit", y); }, seconds[i]);
      ASSERT_EQ(codes.first, MPI_SUCCESS) << i << ": " << text_of(codes.first);
      EXPECT_EQ(y, std::vector<float>(kCount, 0.5F * static_cast<float>(size)));
      int failed = codes.second != MPI_SUCCESS, failures = 0;
      MPI_Allreduce(&failed, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      ASSERT_TRUE(failures == 0 || failures == size) << i;
      together = failures == size;
      if (together) expect_error_everywhere(codes.second, rank == 0 ? "another thread" : "rank 0");
    }
    EXPECT_TRUE(together) << i;
  }
}

TEST_F(Meetings, two_threads_may_be_the_first_users_of_a_communicator) {
  std::pair<int, int> codes{-1, -1};
  std::thread first([&] { codes.first = reduce(comm, "onebit", y); });
  codes.second =
      MPIQ_Allreduce(x.data(), z.data(), kCount, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_method", "onebit"}});
  first.join();
  // They may have come one after the other on every rank.
  int mine[2]{codes.first == MPI_SUCCESS, codes.second == MPI_SUCCESS}, all[2];
  MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_GE(all[0] + all[1], size);
}

}  // namespace
}  // namespace mq::test
