// When MPI itself fails, a message is damaged, or the program's error handler throws: the error comes back. A
// communicator on which MPI failed says so from then on, everything else goes on working, and MPI_Finalize is
// reached.

#include <gtest/gtest.h>
#include <mpi.h>

#include <dlfcn.h>
#include <cstddef>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/engine/frame.hpp"
#include "tests/core/api.hpp"

namespace {

int sends_until_failure = -1;  // < 0: never

// Damages one frame: number `until` of those that this rank sends to rank `to`.
struct Damage {
  int to = -1;
  int until = -1;  // < 0: none
  std::vector<std::byte> copy = {};
  const void* apply(const void* frame, std::size_t bytes, int dest) {
    if (until < 0 || dest != to || bytes < sizeof(mq::FrameHeader) ||
        std::memcmp(frame, &mq::kFrameMagic, sizeof mq::kFrameMagic) != 0 || until-- > 0)
      return frame;
    const auto* const begin = static_cast<const std::byte*>(frame);
    copy.assign(begin, begin + bytes);  // other ranks may get the same frame undamaged
    copy[offsetof(mq::FrameHeader, call)] ^= std::byte{1};
    return copy.data();
  }
};
Damage damage;

}  // namespace

// In front of MPI's own: the library calls PMPI_ names only. Fails like an MPI that has lost its network. The
// library sends bytes.
extern "C" int PMPI_Isend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  using Function = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "PMPI_Isend"));
  if (sends_until_failure == 0) return MPI_ERR_OTHER;
  if (sends_until_failure > 0) --sends_until_failure;
  return real(damage.apply(buf, static_cast<std::size_t>(count), dest), count, type, dest, tag, comm,
              request);
}

namespace mq::test {
namespace {

class Faults : public Api {
 protected:
  void TearDown() override { MPI_Comm_free(&comm); }  // a broken communicator need not work
  int call(MPI_Comm on, MPI_Info info) {
    return MPIQ_Allreduce(MPI_IN_PLACE, x.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, on,
                          info);
  }
  std::vector<float> x = std::vector<float>(300000, 1.0F);
};

TEST_F(Faults, an_mpi_error_comes_back_and_marks_the_communicator_broken) {
  const Info onebit{{"mpiq_method", "onebit"}, {"mpiq_key", "w"}};
  const Info lowrank{{"mpiq_method", "lowrank"}, {"mpiq_key", "w"}, {"mpiq_matrix", "600x500"}};
  const int dissemination = size == 2 ? 1 : 2;  // messages of the agreement
  for (int trial = 0; trial < 6; ++trial) {
    const MPI_Info keyed = trial < 3 ? onebit : lowrank;
    const int at = trial % 3 == 0 ? 0 : dissemination + trial % 3 - 1;
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &copy);
    ASSERT_EQ(call(copy, keyed), MPI_SUCCESS);
    sends_until_failure = at;  // on all ranks: none waits for a message that does not come
    expect_error_everywhere(call(copy, keyed), "MPI_Isend");
    sends_until_failure = -1;
    expect_error_everywhere(call(copy, keyed), "MPI_Isend");
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    expect_error_everywhere(
        MPIQ_Iallreduce(MPI_IN_PLACE, x.data(), 1000, MPI_FLOAT, MPI_SUM, copy, keyed, &request),
        "MPI_Isend");
    EXPECT_EQ(request, MPIQ_REQUEST_NULL);
    EXPECT_EQ(call(comm, keyed), MPI_SUCCESS) << "another communicator is none the worse";
    MPI_Comm_free(&copy);
  }
}

TEST_F(Faults, an_mpi_error_reaches_the_requests_under_way) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &copy);
  const Info info{{"mpiq_method", "onebit"}};
  std::vector<float> y(x.size()), z(x.size());
  MPIQ_Request a = MPIQ_REQUEST_NULL, b = MPIQ_REQUEST_NULL;
  const auto n = static_cast<MPI_Count>(x.size());
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), n, MPI_FLOAT, MPI_SUM, copy, info, &a), MPI_SUCCESS);
  sends_until_failure = 0;
  ASSERT_EQ(MPIQ_Start(&a), MPI_SUCCESS);
  (void)MPIQ_Iallreduce(x.data(), z.data(), n, MPI_FLOAT, MPI_SUM, copy, info, &b);
  expect_error_everywhere(MPIQ_Wait(&a), "MPI_Isend");
  if (b != MPIQ_REQUEST_NULL) expect_error_everywhere(MPIQ_Wait(&b), "MPI_Isend");
  sends_until_failure = -1;
  EXPECT_NE(a, MPIQ_REQUEST_NULL);
  EXPECT_EQ(MPIQ_Request_free(&a), MPI_SUCCESS);
  EXPECT_EQ(call(comm, info), MPI_SUCCESS);
  MPI_Comm_free(&copy);
}

class PartFaults : public Faults {
 protected:
  static constexpr int kCount = 40 * 25;
  // Sums `in` by lowrank. damaged: the number of the sum in which the last rank gets a damaged frame; < 0:
  // none. sums: how many there are.
  int sum(const std::vector<float>& in, const std::string& key, bool by_request, int damaged = -1,
          int* sums = nullptr) {
    constexpr int kMany = 1000;
    const Info info{{"mpiq_method", "lowrank(rank=2)"}, {"mpiq_key", key}, {"mpiq_matrix", "40x25"}};
    const int sender = size - 2, from = damaged < 0 ? kMany : damaged;
    damage = {size - 1, rank == sender ? from : -1};
    int code = MPI_SUCCESS;
    if (by_request) {
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      code = MPIQ_Iallreduce(in.data(), out.data(), kCount, MPI_FLOAT, MPI_SUM, comm, info, &request);
      if (code == MPI_SUCCESS) code = MPIQ_Wait(&request);
    } else {
      code = MPIQ_Allreduce(in.data(), out.data(), kCount, MPI_FLOAT, MPI_SUM, comm, info);
    }
    int sent = from - damage.until;
    damage = {};
    MPI_Bcast(&sent, 1, MPI_INT, sender, comm);
    if (sums != nullptr) *sums = sent;
    return code;
  }
  std::vector<float> out = std::vector<float>(kCount);
};

// The last rank alone fails in one of the sums of a call by lowrank. If a sum follows, its agreement tells
// all ranks. After the last sum the others have a result. Either way all make the same next call, and no
// residual is left that would give the ranks different bits. Inputs that are infinite or so large that a
// product might overflow are summed themselves in the end.
TEST_F(PartFaults, a_sum_of_a_scheme_that_fails_on_one_rank_ends_the_call_on_all) {
  const std::vector<float> normal = input<float>(kCount);
  std::vector<float> infinite = normal, large = normal;
  infinite[3] = std::numeric_limits<float>::infinity();
  for (float& v : large) v *= 3e37F;
  int number = 0;
  for (const auto& [in, expected] : {std::pair{normal, 2}, {infinite, 2}, {large, 3}})
    for (const bool by_request : {false, true})
      for (int part = 0; part < expected; ++part) {
        const std::string key = std::to_string(number++);
        int sums = 0;
        EXPECT_EQ(sum(in, key, by_request, -1, &sums), MPI_SUCCESS);
        EXPECT_EQ(sums, expected);
        const int code = sum(in, key, by_request, part);
        if (rank == size - 1) {
          EXPECT_NE(text_of(code).find("lowrank, part " + std::to_string(part + 1)), std::string::npos)
              << key << ": " << text_of(code);
        } else {
          EXPECT_EQ(code == MPI_SUCCESS, part == expected - 1) << key << ": " << text_of(code);
        }
        for (int after = 0; after < 2; ++after) {
          EXPECT_EQ(sum(normal, key, by_request), MPI_SUCCESS) << key;
          EXPECT_TRUE(same_on_all_ranks(out)) << key;
        }
      }
}

void throwing(MPI_Comm*, int* code, ...) {
  if (*code != MPI_SUCCESS) throw std::runtime_error("thrown by an error handler");
}

TEST_F(Faults, an_error_handler_may_throw) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(throwing, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  const Info bad{{"mpiq_method", "twobit"}}, good{{"mpiq_method", "onebit"}};
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW((void)call(comm, bad), std::runtime_error);
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    ASSERT_EQ(MPIQ_Iallreduce(MPI_IN_PLACE, x.data(), 1000, MPI_FLOAT, MPI_SUM, comm, bad, &request),
              MPI_SUCCESS);
    EXPECT_THROW((void)MPIQ_Wait(&request), std::runtime_error);
    EXPECT_EQ(request, MPIQ_REQUEST_NULL);
    EXPECT_EQ(call(comm, good), MPI_SUCCESS);
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&handler);
}

// The handler gets a communicator of this rank alone. MPI_COMM_SELF keeps its own, even if this one throws.
int handled = 0, ranks_handled_on = 0;
void note_comm(MPI_Comm* on, int*, ...) {
  ++handled;
  MPI_Comm_size(*on, &ranks_handled_on);
}
void count_error(MPI_Comm*, int*, ...) { ++handled; }
void throw_error(MPI_Comm*, int*, ...) { throw std::runtime_error("of the program"); }

TEST_F(Faults, an_error_on_a_freed_communicator_goes_to_the_handler_that_it_had) {
  MPI_Errhandler noting = MPI_ERRHANDLER_NULL, throwing = MPI_ERRHANDLER_NULL, counting = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(&note_comm, &noting);
  MPI_Comm_create_errhandler(&throw_error, &throwing);
  MPI_Comm_create_errhandler(&count_error, &counting);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, counting);
  for (const MPI_Comm of : {MPI_COMM_WORLD, MPI_COMM_SELF})
    for (const MPI_Errhandler handler : {noting, throwing}) {
      MPI_Comm freed = MPI_COMM_NULL;
      MPI_Comm_dup(of, &freed);
      MPI_Comm_set_errhandler(freed, handler);
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      ASSERT_EQ(MPIQ_Iallreduce(MPI_IN_PLACE, x.data(), 1000, MPI_FLOAT, MPI_SUM, freed,
                                Info{{"mpiq_method", "bf16"}}, &request),
                MPI_SUCCESS);
      MPI_Comm_free(&freed);
      handled = 0;
      if (handler == throwing) {
        EXPECT_THROW(MPIQ_Start(&request), std::runtime_error);
        EXPECT_EQ(handled, 0);
      } else {
        EXPECT_NE(MPIQ_Start(&request), MPI_SUCCESS) << "it is not persistent";
        EXPECT_EQ(handled, 1);
        EXPECT_EQ(ranks_handled_on, 1);
      }
      handled = 0;
      MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_OTHER);
      EXPECT_EQ(handled, 1) << "MPI_COMM_SELF has its own handler still";
      EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    }
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (MPI_Errhandler* const handler : {&noting, &throwing, &counting}) MPI_Errhandler_free(handler);
}

}  // namespace
}  // namespace mq::test
