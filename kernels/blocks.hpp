// How the block quantizers cut a vector into blocks. Their host loops and device rows share this arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/hd.hpp"

namespace mq::kernels {

// A sum of more elements than this would lose accuracy, so longer blocks are summed in pieces.
inline constexpr std::size_t kSumPiece = 4096;

// How a vector is cut into blocks: the first has `even` elements, the next `odd`, then `even` again, and so
// on. The last block may be shorter. `even` and `odd` are not both 0.
struct Cut {
  std::size_t even, odd;
  MQ_HD constexpr std::size_t length(std::size_t block) const { return block % 2 == 0 ? even : odd; }
  MQ_HD constexpr std::size_t begin(std::size_t block) const {
    return block / 2 * (even + odd) + (block % 2 == 0 ? 0 : even);
  }
  // Number of blocks of n elements.
  MQ_HD constexpr std::size_t blocks(std::size_t n) const {
    const std::size_t rest = n % (even + odd);
    return 2 * (n / (even + odd)) + (rest > 0) + (rest > even);
  }
};

}  // namespace mq::kernels
