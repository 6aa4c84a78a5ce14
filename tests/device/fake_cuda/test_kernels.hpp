// Arguments of the kernels that only the fake driver has: test_add, test_reverse.
#pragma once

#include <cstdint>

#include "kernels/cuda/names.hpp"

namespace mq::kernels::names {
MQ_KERNEL_NAME(test_add) MQ_KERNEL_NAME(test_reverse)
}  // namespace mq::kernels::names

namespace mq::fake {

namespace names = kernels::names;

struct TestAdd {
  float* x;
  std::uint64_t n;
  float v;
};

}  // namespace mq::fake
