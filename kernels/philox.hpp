// The random numbers of stochastic codecs: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: Parallel
// random numbers, as easy as 1, 2, 3; SC 2011). A number is a function of a key and a counter, so every rank,
// instruction set and GPU thread computes the same ones, in any order. Host and GPU rows share this file.
#pragma once

#include <cstdint>

#include "kernels/codec.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels::philox {

inline constexpr int kRounds = 10;
inline constexpr std::uint32_t kMultiplier0 = 0xd2511f53u, kMultiplier1 = 0xcd9e8d57u;
inline constexpr std::uint32_t kKeyStep0 = 0x9e3779b9u,
                               kKeyStep1 = 0xbb67ae85u;  // no arrays: GPUs cannot read those

struct Block {
  std::uint32_t word[4];
};

MQ_HD constexpr Block draw(Block counter, std::uint32_t key0, std::uint32_t key1) {
  std::uint32_t* const c = counter.word;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = static_cast<std::uint64_t>(kMultiplier0) * c[0];
    const std::uint64_t b = static_cast<std::uint64_t>(kMultiplier1) * c[2];
    const std::uint32_t c1 = c[1], c3 = c[3];
    c[0] = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ key0;
    c[1] = static_cast<std::uint32_t>(b);
    c[2] = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ key1;
    c[3] = static_cast<std::uint32_t>(a);
    key0 += kKeyStep0;
    key1 += kKeyStep1;
  }
  return counter;
}

// How a vector takes its numbers. Element i of a call has 16 random bits: half i % 2 (the lower half first)
// of word i / 32 % 4 of the draw with number i / 128 * 16 + i % 32 / 2. So 128 elements, a tile, take 16
// draws. The key is NoiseIndex::call and the counter is the number of the draw and NoiseIndex::sum.
inline constexpr int kTile = 128, kDrawsOfTile = 16;

MQ_HD constexpr std::uint16_t bits_of(std::uint64_t call, std::uint64_t sum, std::uint64_t element) {
  const std::uint64_t number = element / kTile * kDrawsOfTile + element % 32 / 2;
  const Block counter{{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                       static_cast<std::uint32_t>(sum), static_cast<std::uint32_t>(sum >> 32)}};
  const Block block = draw(counter, static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32));
  return static_cast<std::uint16_t>(block.word[element / 32 % 4] >> (16 * (element % 2)));
}

}  // namespace mq::kernels::philox
