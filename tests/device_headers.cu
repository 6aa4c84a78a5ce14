// What host and device share must compile as device code. Compiled where there is a CUDA compiler; not run:
// the device rows, which will use it, have tests of their own.

#include "kernels/hd.hpp"

__global__ void round_trip(const float* x, float* y) {
  const std::uint16_t code = mq::kernels::bf16_from_bits(__float_as_uint(x[threadIdx.x]));
  const std::uint16_t half = mq::kernels::f16_from_bits(mq::kernels::bits_from_bf16(code));
  y[threadIdx.x] = __uint_as_float(mq::kernels::bits_from_f16(half));
}
