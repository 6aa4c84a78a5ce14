// The image of all kernels: what nvcc made of kernels/cuda/image.cu, or where there is no nvcc a line of text
// that every driver refuses. Ends with a zero.
#pragma once

namespace mq::cuda {

const void* image() noexcept;

}  // namespace mq::cuda
