// stub
#include <gtest/gtest.h>
#include "mpi_quant/base/device.hpp"
#include "tests/fake_cuda/array.hpp"
TEST(DeviceApi, is_there) {
  mq::fake::use_gpu();
  ASSERT_NE(mq::device_api(), nullptr) << mq::device_trouble();
}
