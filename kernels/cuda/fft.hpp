// The arguments of fft's kernels (fft.cuh), for the launch lists (fft.cpp) and the kernels. All pointers are device addresses.
#pragma once

#include "kernels/cuda/sparse_args.hpp"
#include "kernels/fourier.hpp"
#include "kernels/range_float.hpp"

namespace mq::kernels::cuda {

inline constexpr std::uint32_t kFftThreads = 256;

// What a kernel needs of the parameters.
template <class T>
struct FftSetting {
  FloatRange<T> range;
  std::uint32_t bits;     // of a part; 32: all of the element type
  std::uint32_t most[2];  // coefficients that are sent of a whole chunk, and of a shorter last one
};

// Memory of a thread block: the numbers of the transform, which are in shared memory if there is enough of it, and behind them
// coefficients and parts.
template <class T>
struct FftMemory {
  static constexpr std::size_t kCoefficients = kTurn / 2 + 1;
  T re[kCoefficients], im[kCoefficients];
  T parts[2 * kCoefficients +
          32];  // of coefficients that are sent, real and imaginary in turn; the energies before
};
template <class T>
struct FftNumbers {
  T of[2][2][kTurn / 2];  // [array][real, imaginary]
};

template <class T>
struct FftEncodeArgs : ChainedArgs {
  const std::byte* x;
  std::byte* residual;
  std::uint64_t n;
  std::uint32_t chunk;
  Feedback feedback;
  bool keeps;              // there is a residual, even if this encode does not use it
  FftMemory<T>* memory;    // of each thread block
  FftNumbers<T>* numbers;  // null: shared memory
  FftSetting<T> setting;
};
template <class T>
struct FftDecodeArgs : SparseDecodeArgs {
  FftMemory<T>* memory;
  FftNumbers<T>* numbers;
  FftSetting<T> setting;
};

}  // namespace mq::kernels::cuda
