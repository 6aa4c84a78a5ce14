// The arguments of meprop's kernels (meprop.cuh), for the launch lists (meprop.cpp) and the kernels. All pointers are device
// addresses.
#pragma once

#include "kernels/cuda/sparse_args.hpp"

namespace mq::kernels::cuda {

// Longer blocks are for the processor.
inline constexpr std::uint64_t kLongestMeProp = std::uint64_t{1} << 28;
inline constexpr std::uint32_t kMePropThreads = 512, kMostLines = 1024;

struct MePropEncodeArgs : ChainedArgs {
  const std::byte* x;
  std::byte* residual;
  std::uint64_t n;
  std::uint32_t block, line;  // elements
  std::uint32_t most[2];      // lines that are sent of a whole block, and of a shorter last block
  Feedback feedback;
  bool keeps;  // there is a residual, even if this encode does not use it
};
struct MePropDecodeArgs : SparseDecodeArgs {
  std::uint32_t line;
};

}  // namespace mq::kernels::cuda
