// The arguments of adacomp's kernels (adacomp.cuh), for the launch lists (adacomp.cpp) and the kernels. All pointers are device
// addresses.
#pragma once

#include "kernels/cuda/sparse_args.hpp"

namespace mq::kernels::cuda {

struct AdaCompEncodeArgs : SparseEncodeArgs {
  std::uint64_t*
      most;  // the greatest magnitude of each bin of the vector, as a pattern of bits; in scratch memory
  Params params;
};
struct AdaCompDecodeArgs : SparseDecodeArgs {
  Params params;
};

// Bins whose terms of the mean are in shared memory at once.
inline constexpr std::uint32_t kAdaCompTerms = 512;

}  // namespace mq::kernels::cuda
