// The image of all kernels, which nvcc makes from kernels/cuda/image.cu. Without nvcc it is a line of text
// that every driver rejects. It ends with a zero byte.
#pragma once

namespace mq::cuda {

const void* image() noexcept;

}  // namespace mq::cuda
