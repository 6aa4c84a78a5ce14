// How the block quantizers cut a vector: the one piece of arithmetic that their host loops and their device
// rows share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/hd.hpp"

namespace mq::kernels {

// Sums of more elements than this would lose accuracy: longer blocks are measured in pieces.
inline constexpr std::size_t kSumPiece = 4096;

// How a vector divides into blocks: `even` elements, then `odd`, and so on in turn; the last may be shorter.
// Not both 0.
struct Cut {
  std::size_t even, odd;
  MQ_HD constexpr std::size_t length(std::size_t block) const { return block % 2 == 0 ? even : odd; }
  MQ_HD constexpr std::size_t begin(std::size_t block) const {
    return block / 2 * (even + odd) + (block % 2 == 0 ? 0 : even);
  }
  // The blocks of n elements.
  MQ_HD constexpr std::size_t blocks(std::size_t n) const {
    const std::size_t rest = n % (even + odd);
    return 2 * (n / (even + odd)) + (rest > 0) + (rest > even);
  }
};

}  // namespace mq::kernels
