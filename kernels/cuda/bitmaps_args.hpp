// The arguments of the bitmap kernels (bitmaps.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bitmaps.hpp"
#include "kernels/cuda/chain.hpp"

namespace mq::kernels::cuda {

inline constexpr std::uint32_t kBitmapThreads = 256;
inline constexpr std::uint32_t kBitmapPart = 1024;  // words of 64 positions per thread block

struct MakeBitmapArgs {
  const std::uint64_t* indices;
  std::byte* bitmap;
  std::uint64_t n, base, words;
};
struct CountBitmapArgs {
  const std::byte* bitmap;
  std::uint64_t words;
  std::uint64_t* count;
};
struct VisitBitmapArgs {
  const std::byte* bitmap;
  std::uint64_t words, base, n;
  ChainState* state;
  std::uint64_t* indices;   // output of list and collect
  const std::byte* from;    // collect: elements
  std::byte* to;            // collect: values; fold: elements
  const std::byte* values;  // fold
  Fold fold;
};

}  // namespace mq::kernels::cuda
