// The tables of the entropy stage (stage.hpp): prefix codes for bytes, each the best one of at most kMaxBits
// bits for a distribution that is known beforehand. They are made by integer arithmetic, so they are the same
// on every machine, and nothing of them travels.
#pragma once

#include <cstdint>

namespace mq::kernels::entropy {

inline constexpr int kTables = 8, kMaxBits = 12;

// One prefix code. A symbol is a byte: one code of a codec, or two or four short ones.
struct Table {
  std::uint32_t code[256];              // of a symbol: its bits, the first one lowest, and length << 16
  std::uint16_t entry[1u << kMaxBits];  // of the next kMaxBits bits: symbol << 8 and length
};

struct Tables {
  alignas(64) Table table[kTables];
  std::uint64_t lengths[256];  // of a symbol: byte t is its length in table t
};

// The tables for blockwise integers of so many bits (integers/fixed-inl.hpp), 2 to 8. Made when
// they are asked for the first time.
const Tables& integer_tables(int bits, bool stochastic) noexcept;

// How many bits a code of so many bits has in a symbol.
constexpr int symbol_bits(int bits) { return bits <= 2 ? 2 : bits <= 4 ? 4 : 8; }

}  // namespace mq::kernels::entropy
