// All kernels, which nvcc makes from kernels/cuda/image.cu: an image of binaries, and the PTX that they are
// made of, which a driver can compile itself. Without nvcc each is a line of text that every driver rejects.
// Both end with a zero byte.
#pragma once

namespace mq::cuda {

const void* image() noexcept;
const void* ptx() noexcept;

}  // namespace mq::cuda
