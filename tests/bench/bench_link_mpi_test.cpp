// mpiq-bench link says why an exchange failed.

#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>
#include <string>

#include "bench/call.hpp"
#include "bench/link.hpp"

namespace mq::bench {
namespace {

// Rank 0 expects longer messages than rank 1 sends, and rank 1 shorter ones than rank 0 sends.
TEST(LinkExchange, says_which_message_was_wrong) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  // MPICH asks this one's handler where a request is over.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const std::uint64_t count = rank == 0 ? 32 : 16;
  const Options options;
  const std::unique_ptr<Collective> link = make_link_collective(options);
  const std::unique_ptr<Workload> unequal =
      link->at({kernels::Element::f32, size, count, ""}, MPI_COMM_WORLD);
  ASSERT_NE(unequal, nullptr);
  for (const MethodWord& method : link_methods()) {
    const int error = unequal->variant(method)->call();
    EXPECT_NE(error, MPI_SUCCESS);
    EXPECT_NE(error, MPI_ERR_OTHER);
    const std::string text = error_text(error);
    EXPECT_NE(text.find("mpi_quant: rank " + std::to_string(1 - rank) + " sent "), std::string::npos) << text;
    EXPECT_NE(text.find(" bytes instead of " + std::to_string(4 * count)), std::string::npos) << text;
  }
  const std::unique_ptr<Workload> equal = link->at({kernels::Element::f32, size, 16, ""}, MPI_COMM_WORLD);
  ASSERT_NE(equal, nullptr);
  EXPECT_EQ(equal->variant(link_methods().front())->call(), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::bench
