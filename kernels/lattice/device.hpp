// The arguments of bound's kernels (device.cuh), for the launch lists (device.cpp) and the kernels. All
// pointers are device addresses.
#pragma once

#include "kernels/cuda/chain.hpp"
#include "kernels/lattice/lattice.hpp"
#include "kernels/sparse/device.hpp"

namespace mq::kernels::cuda {

// Each warp codes one block.
inline constexpr std::uint32_t kLatticeWarps = 16, kLatticeThreads = 32 * kLatticeWarps;
// Shared memory of a warp: a block, and room for copies of whole words.
template <class T>
inline constexpr std::uint32_t kLatticeShared = LatticeWire<T>::kBlock * sizeof(T) + 16;

struct LatticeEncodeArgs : ChainedArgs {
  const std::byte* x;
  std::byte* residual;
  std::uint64_t n;
  Feedback feedback;
  double step;
};

struct LatticeDecodeArgs : SparseDecodeArgs {
  double step;
};

struct GreatestState {
  std::uint64_t pattern;
  std::uint32_t done, unused;
};
// Finds the greatest finite magnitude.
struct GreatestArgs {
  const std::byte* x;
  std::uint64_t n;
  GreatestState* state;
  double* greatest;
};

}  // namespace mq::kernels::cuda
