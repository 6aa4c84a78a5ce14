// Arguments of the kernels that only the fake driver has: test_add, test_reverse.
#pragma once

#include <cstdint>

namespace mq::fake {

struct TestAdd {
  float* x;
  std::uint64_t n;
  float v;
};

}  // namespace mq::fake
