// What the objects of all instruction sets include before their target region (object.cpp.in). Headers of the
// standard library must not be included for the first time within it: their functions would be compiled for
// that processor, and the linker might take them for the whole program.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>

#include "kernels/bitmaps.hpp"
#include "kernels/blocks.hpp"
#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "kernels/entropy/stage.hpp"
#include "kernels/fft/fourier.hpp"
#include "kernels/float_bits.hpp"
#include "kernels/halves/halves.hpp"
#include "kernels/hd.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/integers/integers.hpp"
#include "kernels/lattice/lattice.hpp"
#include "kernels/microscaled/microscaled.hpp"
#include "kernels/narrow_products.hpp"
#include "kernels/onebit/wire.hpp"
#include "kernels/patterns/natural_wire.hpp"
#include "kernels/patterns/range.hpp"
#include "kernels/philox.hpp"
#include "kernels/trits/trits.hpp"

namespace mq::kernels {

inline constexpr int kLanes = 32;

// For each byte, the number of ones and their positions. 5 KiB.
struct OnesTable {
  std::uint16_t position[256][8];
  std::uint8_t count[256];
};
constexpr OnesTable make_ones_table() {
  OnesTable table{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned rest = byte; rest != 0; rest &= rest - 1)
      table.position[byte][table.count[byte]++] = static_cast<std::uint16_t>(std::countr_zero(rest));
  return table;
}
alignas(64) inline constexpr OnesTable kOnes = make_ones_table();

// What the draws of a vector have in common. Only the lower half of their numbers differs, which is the first
// word of the counter. So half of the first two rounds of philox::draw is the same for all of them, and done
// here.
struct RandomRounds {
  std::uint64_t sum, upper;  // NoiseIndex::sum; the upper half of the numbers, as a number
  std::uint32_t key[philox::kRounds][2];
  std::uint32_t first2, second0, second2,
      second3;  // what these words of the two rounds are xored with; the last is the word
};
inline RandomRounds random_rounds(std::uint64_t call, std::uint64_t sum, std::uint64_t upper) {
  RandomRounds r{};
  r.sum = sum;
  r.upper = upper;
  auto key0 = static_cast<std::uint32_t>(call), key1 = static_cast<std::uint32_t>(call >> 32);
  for (auto& key : r.key) {
    key[0] = key0;
    key[1] = key1;
    key0 += philox::kKeyStep0;
    key1 += philox::kKeyStep1;
  }
  const std::uint64_t b = std::uint64_t{philox::kMultiplier1} * static_cast<std::uint32_t>(sum);
  const std::uint32_t word0 =
      static_cast<std::uint32_t>(b >> 32) ^ static_cast<std::uint32_t>(upper) ^ r.key[0][0];
  const std::uint64_t a = std::uint64_t{philox::kMultiplier0} * word0;
  r.first2 = static_cast<std::uint32_t>(sum >> 32) ^ r.key[0][1];
  r.second0 = static_cast<std::uint32_t>(b) ^ r.key[1][0];
  r.second2 = static_cast<std::uint32_t>(a >> 32) ^ r.key[1][1];
  r.second3 = static_cast<std::uint32_t>(a);
  return r;
}

}  // namespace mq::kernels
