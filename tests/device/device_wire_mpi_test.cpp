// Frames in the memory of GPUs (MPIQ_CUDA_WIRE), over an MPI that takes them: device_mpi_test.cpp and
// device_calls_mpi_test.cpp, which are linked to this, hold as they do with frames in host memory; here, that
// frames are where they are to be.
// Ranks may differ in where they want them.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/core/api.hpp"
#include "tests/device/fake_cuda/array.hpp"
#include "tests/device/gpu_aware_mpi.hpp"

namespace mq::test {
namespace {

using fake::Array;

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

class DeviceWire : public Api {
 protected:
  void SetUp() override {
    setenv("FAKE_CUDA_DEVICES", "2", 0);  // as device_calls.hpp: read at the driver's first call
    fake::use_gpu();
    fake_cuda_forget();
    Api::SetUp();
  }
  void TearDown() override {
    fake_cuda_forget();
    Api::TearDown();
  }
};

TEST_F(DeviceWire, messages_are_in_device_memory_where_the_rank_wants_and_mpi_takes_them) {
  if (size == 1) return;
  const std::size_t n = 5000;
  const auto x = input<float>(n);
  const Info info{{"mpiq_method", "onebit/direct"}};
  std::vector<float> expected(n);
  long before = messages_in_device_memory();
  const int on_host = MPIQ_Allreduce(x.data(), expected.data(), n, MPI_FLOAT, MPI_SUM, comm, info);
  ASSERT_EQ(on_host, MPI_SUCCESS) << text_of(on_host);
  EXPECT_EQ(messages_in_device_memory(), before) << "of vectors in host memory";
  Array<float> send(x), receive(n);
  const int code = MPIQ_Allreduce(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm, info);
  const std::string wire = variable("MPIQ_CUDA_WIRE");
  EXPECT_EQ(times_asked(), wire == "host" ? 0 : 1);
  if (wire == "device" && !takes_device_memory()) {
    expect_error_everywhere(code, rank == 0 ? "MPIQ_CUDA_WIRE" : "");
    return;
  }
  ASSERT_EQ(code, MPI_SUCCESS) << text_of(code);
  EXPECT_TRUE(same_bits(receive.get(), expected));
  const long sent = messages_in_device_memory() - before;
  EXPECT_EQ(sent, wire == "device" || (wire == "auto" && takes_device_memory()) ? 4 * (size - 1) : 0);
}

}  // namespace
}  // namespace mq::test
