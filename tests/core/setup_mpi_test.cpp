// What the first call on a communicator costs: at most so many of MPI's collectives and communicators,
// whatever the number of ranks, and none in later calls. The linker puts the functions here in place of
// MPI's.

#include <gtest/gtest.h>
#include <mpi.h>

#include <bit>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace {

struct Calls {
  int reductions = 0, broadcasts = 0, communicators = 0, others = 0, sends = 0;
  bool operator==(const Calls&) const = default;
} calls;

}  // namespace

extern "C" {
// NOLINTBEGIN: the linker makes these names
#define MQ_COUNTED(function, counter, parameters, arguments) \
  int __real_##function parameters;                          \
  int __wrap_##function parameters {                         \
    ++calls.counter;                                         \
    return __real_##function arguments;                      \
  }
MQ_COUNTED(PMPI_Allreduce, reductions, (const void* s, void* r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
           (s, r, n, t, o, c))
MQ_COUNTED(PMPI_Iallreduce, reductions,
           (const void* s, void* r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* q),
           (s, r, n, t, o, c, q))
MQ_COUNTED(PMPI_Reduce, others,
           (const void* s, void* r, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
           (s, r, n, t, o, root, c))
MQ_COUNTED(PMPI_Bcast, broadcasts, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
MQ_COUNTED(PMPI_Gather, others,
           (const void* s, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, int root, MPI_Comm c),
           (s, n, t, r, m, u, root, c))
MQ_COUNTED(PMPI_Ibarrier, others, (MPI_Comm c, MPI_Request* q), (c, q))
MQ_COUNTED(PMPI_Comm_split, communicators, (MPI_Comm c, int color, int key, MPI_Comm* made),
           (c, color, key, made))
MQ_COUNTED(PMPI_Comm_split_type, communicators, (MPI_Comm c, int type, int key, MPI_Info i, MPI_Comm* made),
           (c, type, key, i, made))
MQ_COUNTED(PMPI_Isend, sends,
           (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* q),
           (b, n, t, to, tag, c, q))
#undef MQ_COUNTED
// NOLINTEND
}

namespace mq::test {
namespace {

class Setup : public Api {
 protected:
  // The calls of MPI that this rank makes in one reduction.
  Calls of_a_call(MPI_Comm on, const char* method) {
    constexpr MPI_Count kCount = 1000;
    std::vector<float> from(kCount, 1), to(kCount);
    calls = {};
    EXPECT_EQ(
        MPIQ_Allreduce(from.data(), to.data(), kCount, MPI_FLOAT, MPI_SUM, on, Info{{"mpiq_method", method}}),
        MPI_SUCCESS);
    return calls;
  }
};

TEST_F(Setup, the_first_call_has_few_collectives_and_later_ones_have_none) {
  if (size == 1) GTEST_SKIP() << "one rank sends nothing";
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  const Calls first = of_a_call(fresh, "onebit/direct");
  EXPECT_GE(first.reductions, 1) << "they are counted at all";
  EXPECT_LE(first.reductions, 7);  // of some words
  EXPECT_GE(first.communicators, 1);
  EXPECT_LE(first.communicators, 2);
  EXPECT_EQ(first.broadcasts, 0);
  EXPECT_EQ(first.others, 0);
  const int agreement = std::bit_width(static_cast<unsigned>(size - 1));
  EXPECT_EQ(of_a_call(fresh, "onebit/direct"), (Calls{.sends = agreement + 2 * (size - 1)}));
  EXPECT_EQ(of_a_call(fresh, "onebit/allgather"),
            (Calls{.sends = agreement + size - 1}));  // another plan needs none
  MPI_Comm_free(&fresh);
}

}  // namespace
}  // namespace mq::test
