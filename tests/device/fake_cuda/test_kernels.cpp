// Kernels for the tests of the fake driver and of what launches.

#include "tests/device/fake_cuda/test_kernels.hpp"

#include "kernels/cuda/simt.cuh"

MQ_KERNEL(test_add, mq::fake::TestAdd, 256) {
  const std::uint64_t i = std::uint64_t{mq::simt::block()} * mq::simt::threads() + mq::simt::thread();
  if (i < args.n) args.x[i] += args.v;
}

// Reverses each block's numbers through its shared memory.
MQ_KERNEL(test_reverse, mq::fake::TestAdd, 256) {
  auto* const shared = reinterpret_cast<float*>(mq::simt::dynamic_shared());
  const std::uint32_t t = mq::simt::thread(), last = mq::simt::threads() - 1;
  float* const x = args.x + std::uint64_t{mq::simt::block()} * mq::simt::threads();
  shared[t] = x[t];
  mq::simt::barrier();
  x[t] = shared[last - t] + args.v;
}
