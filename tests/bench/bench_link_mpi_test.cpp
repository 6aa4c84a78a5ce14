// mpiq-bench link says why an exchange failed. The build wraps PMPI_Irecv.

#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>
#include <string>

#include "bench/call.hpp"
#include "bench/link.hpp"

namespace {
bool receives_fail = false;
}

extern "C" {
int __real_PMPI_Irecv(void* buffer, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                      MPI_Request* request);
int __wrap_PMPI_Irecv(void* buffer, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                      MPI_Request* request) {
  if (receives_fail) return MPI_ERR_TRUNCATE;
  return __real_PMPI_Irecv(buffer, n, type, from, tag, comm, request);
}
}

namespace mq::bench {
namespace {

TEST(LinkExchange, says_what_mpi_said) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const Options options;
  const std::unique_ptr<Collective> link = make_link_collective(options);
  const std::unique_ptr<Workload> workload = link->at({kernels::Element::f32, size, 16, ""}, MPI_COMM_WORLD);
  ASSERT_NE(workload, nullptr);
  const std::unique_ptr<Variant> single = workload->variant(link_methods().front());
  EXPECT_EQ(single->call(), MPI_SUCCESS);
  receives_fail = true;
  const int error = single->call();
  receives_fail = false;
  const std::string text = error_text(error);
  EXPECT_NE(error, MPI_SUCCESS);
  EXPECT_NE(text.find("mpi_quant: "), std::string::npos) << text;
  EXPECT_NE(text.find("MPI_Irecv"), std::string::npos) << text;
  EXPECT_EQ(single->call(), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::bench
