// A fixed pseudo-random permutation of 0 .. size-1 as a function, without a table. It spreads things that are
// numbered by popularity over the index space. It is a Feistel network over the next even power of two,
// applied until the value is back in the range (Black and Rogaway 2002).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "bench/random.hpp"

namespace mq::bench {

class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed) : size_(size) {
    const int bits = size <= 2 ? 2 : std::bit_width(size - 1);
    half_bits_ = (bits + 1) / 2;
    mask_ = (std::uint64_t{1} << half_bits_) - 1;
    Random random(seed);
    for (std::uint64_t& key : keys_) key = random.next();
  }
  // For i < size. The result is below size too, and differs for every i.
  std::uint64_t operator()(std::uint64_t i) const {
    do i = shuffled(i);
    while (i >= size_);
    return i;
  }

 private:
  std::uint64_t shuffled(std::uint64_t i) const {
    std::uint64_t left = i >> half_bits_, right = i & mask_;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t next = left ^ (Random(right ^ key).next() & mask_);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t size_, mask_ = 0;
  int half_bits_ = 0;
  std::array<std::uint64_t, 4> keys_{};
};

}  // namespace mq::bench
