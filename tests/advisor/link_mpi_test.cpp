// The link meter over MPI: numbers that make sense, the same on all ranks.

#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "mpi_quant/base/link_meter.hpp"
#include "mpi_quant/core/mpi_comm.hpp"

namespace mq::test {
namespace {

TEST(LinkMeter, gives_all_ranks_of_MPI_the_same) {
  MPI_Comm handle = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &handle), MPI_SUCCESS);
  MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN);
  MpiComm comm(handle, Waiting::yields);
  const Deadline deadline(60);
  Traffic traffic;
  std::vector<std::byte> memory(kLinkMemory);
  LinkModel link;
  const double start = MPI_Wtime();
  const Status status = LinkMeter<MpiComm>(comm, 0, deadline, traffic, memory).measure(link);
  RecordProperty("seconds", std::to_string(MPI_Wtime() - start));
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_GE(link.latency_s, 0);
  EXPECT_GE(link.overhead_s, 0);
  EXPECT_GE(link.beta_s, 0);
  EXPECT_GT(link.seconds(1 << 20), 0);
  EXPECT_GT(traffic.messages_sent, 0u);
  const double mine[]{link.latency_s, link.overhead_s, link.beta_s, link.residual};
  double least[4], greatest[4];
  MPI_Allreduce(mine, least, 4, MPI_DOUBLE, MPI_MIN, handle);
  MPI_Allreduce(mine, greatest, 4, MPI_DOUBLE, MPI_MAX, handle);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(least[i], greatest[i]);
  MPI_Comm_free(&handle);
}

}  // namespace
}  // namespace mq::test
