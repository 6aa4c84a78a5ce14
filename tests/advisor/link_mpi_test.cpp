// Measuring a link: the same numbers on all ranks.

#include <gtest/gtest.h>
#include <mpi.h>

#include "mpi_quant/advisor/link_mpi.hpp"

namespace mq::test {
namespace {

TEST(MeasuredLink, is_the_same_on_all_ranks) {
  int size = 1;
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_SUCCESS);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_size(comm, &size);
  const double start = MPI_Wtime();
  const Result<LinkModel> link = measure_link(comm);
  const double took = MPI_Wtime() - start;
  ASSERT_EQ(link.ok(), size > 1);
  if (link.ok()) {
    EXPECT_GE(link->latency_s, 0);
    EXPECT_GE(link->overhead_s, 0);
    EXPECT_GE(link->beta_s, 0);
    EXPECT_GT(link->seconds(1 << 20), 0);
    const double mine[]{link->latency_s, link->overhead_s, link->beta_s, link->residual};
    double least[4], greatest[4];
    MPI_Allreduce(mine, least, 4, MPI_DOUBLE, MPI_MIN, comm);
    MPI_Allreduce(mine, greatest, 4, MPI_DOUBLE, MPI_MAX, comm);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(least[i], greatest[i]);
    RecordProperty("seconds", std::to_string(took));
  }
  MPI_Comm_free(&comm);
}

}  // namespace
}  // namespace mq::test
