#include "kernels/entropy/stage.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace mq::kernels::entropy {
namespace {

// One symbol of so many is looked at to choose a table.
constexpr std::size_t kSampleStep = 4;

// The table that takes the fewest bits for the sample, and these bits.
struct Choice {
  std::size_t table, bits, symbols;
};

Choice choose(const Tables& tables, const std::uint8_t* symbols, std::size_t n) {
  constexpr std::uint64_t kEven = 0x00ff00ff00ff00ff;
  const std::size_t step = n < 64 * kSampleStep ? 1 : kSampleStep;
  std::uint64_t even = 0, odd = 0;  // four sums of 16 bits each
  for (std::size_t i = 0; i < n;) {
    std::uint64_t sums = 0;  // eight sums of 8 bits, of at most 16 lengths
    const std::size_t end = std::min(n, i + 16 * step);
    for (; i < end; i += step) sums += tables.lengths[symbols[i]];
    even += sums & kEven;
    odd += sums >> 8 & kEven;
  }
  Choice best{0, ~std::size_t{0}, (n + step - 1) / step};
  for (std::size_t t = 0; t < kTables; ++t) {
    const std::size_t bits = (t % 2 == 0 ? even : odd) >> (8 * (t & ~std::size_t{1})) & 0xffff;
    if (bits < best.bits) best = {t, bits, best.symbols};
  }
  return best;
}

// The bits that do not fill a byte yet.
struct Writer {
  std::byte* to;
  std::uint64_t bits = 0;
  unsigned filled = 0;

  void append(std::uint32_t code) {
    bits |= std::uint64_t{code & 0xffff} << filled;
    filled += code >> 16;
  }
  // Writes whole bytes, and up to eight behind them. There is room for them.
  void flush() {
    std::memcpy(to, &bits, sizeof bits);
    to += filled >> 3;
    bits >>= filled & ~7u;
    filled &= 7;
  }
};

std::byte* write_stream(const Table& table, const std::uint8_t* symbols, std::size_t n, std::byte* to) {
  static_assert(4 * kMaxBits + 7 < 64);
  Writer writer{to};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    writer.append(table.code[symbols[i]]);
    writer.append(table.code[symbols[i + 1]]);
    writer.append(table.code[symbols[i + 2]]);
    writer.append(table.code[symbols[i + 3]]);
    writer.flush();
  }
  for (; i < n; ++i) {
    writer.append(table.code[symbols[i]]);
    writer.flush();
  }
  return writer.to + (writer.filled != 0);
}

constexpr std::uint64_t kMask = (1u << kMaxBits) - 1;

inline std::uint64_t bits_at(const std::byte* from, std::uint64_t at) {
  std::uint64_t bits;
  std::memcpy(&bits, from + (at >> 3), sizeof bits);
  return bits >> (at & 7);
}

// Reads four symbols from bit `at` on; returns the bit behind them.
inline std::uint64_t read_four(const Table& table, const std::byte* from, std::uint64_t at,
                               std::uint8_t* symbols) {
  static_assert(4 * kMaxBits + 7 <= 64);
  std::uint64_t bits = bits_at(from, at);
  const std::uint64_t a = table.entry[bits & kMask];
  bits >>= a & 63;
  const std::uint64_t b = table.entry[bits & kMask];
  bits >>= b & 63;
  const std::uint64_t c = table.entry[bits & kMask];
  bits >>= c & 63;
  const std::uint64_t d = table.entry[bits & kMask];
  symbols[0] = static_cast<std::uint8_t>(a >> 8);
  symbols[1] = static_cast<std::uint8_t>(b >> 8);
  symbols[2] = static_cast<std::uint8_t>(c >> 8);
  symbols[3] = static_cast<std::uint8_t>(d >> 8);
  return at + ((a + b + c + d) & 0xff);
}

std::uint64_t read_rest(const Table& table, const std::byte* from, std::uint64_t at, std::uint8_t* symbols,
                        std::size_t n) {
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) at = read_four(table, from, at, symbols + i);
  for (; i < n; ++i) {
    const std::uint16_t entry = table.entry[bits_at(from, at) & kMask];
    symbols[i] = static_cast<std::uint8_t>(entry >> 8);
    at += entry & 63u;
  }
  return at;
}

// The first symbol of each stream, and the end.
using Cuts = std::array<std::size_t, kStreams + 1>;
Cuts cuts_of(std::size_t n) {
  const std::size_t quarter = (n + kStreams - 1) / kStreams;
  Cuts cuts{};
  for (std::size_t s = 0; s <= kStreams; ++s) cuts[s] = std::min(n, s * quarter);
  return cuts;
}

// Whether a stream that was read up to bit `at` ends with byte `end`, and with zeros.
bool ends_at(const std::byte* from, std::uint64_t at, std::size_t end) {
  if (8 * end - at >= 8) return false;
  return (at & 7) == 0 || std::to_integer<unsigned>(from[at >> 3]) >> (at & 7) == 0;
}

// The streams begin at these bytes. 16 bytes behind the greatest place where a stream can end may be read.
bool read_streams(const Table& table, const std::byte* from,
                  const std::array<std::size_t, kStreams + 1>& begin, std::size_t n, std::uint8_t* symbols) {
  const Cuts cuts = cuts_of(n);
  std::uint64_t a = 8 * begin[0], b = 8 * begin[1], c = 8 * begin[2], d = 8 * begin[3];
  std::uint8_t *const to_a = symbols, *const to_b = symbols + cuts[1], *const to_c = symbols + cuts[2],
                      *const to_d = symbols + cuts[3];
  const std::size_t common = (cuts[4] - cuts[3]) & ~std::size_t{3};
  for (std::size_t i = 0; i < common; i += 4) {
    a = read_four(table, from, a, to_a + i);
    b = read_four(table, from, b, to_b + i);
    c = read_four(table, from, c, to_c + i);
    d = read_four(table, from, d, to_d + i);
  }
  std::array<std::uint64_t, kStreams> at{a, b, c, d};
  bool ok = true;
  for (std::size_t s = 0; s < kStreams; ++s) {
    at[s] = read_rest(table, from, at[s], symbols + cuts[s] + common, cuts[s + 1] - cuts[s] - common);
    ok &= ends_at(from, at[s], begin[s + 1]);
  }
  return ok;
}

}  // namespace

std::size_t pack(const Tables& tables, const std::uint8_t* symbols, std::size_t n, std::size_t limit,
                 std::byte* to) noexcept {
  const Choice choice = choose(tables, symbols, n);
  if (kHead + choice.bits * n / choice.symbols / 8 >= limit) return 0;
  const Table& table = tables.table[choice.table];
  const Cuts cuts = cuts_of(n);
  to[0] = static_cast<std::byte>(1 + choice.table);
  std::byte* at = to + kHead;
  for (std::size_t s = 0; s < kStreams; ++s) {
    std::byte* const end = write_stream(table, symbols + cuts[s], cuts[s + 1] - cuts[s], at);
    const auto bytes = static_cast<std::uint16_t>(end - at);
    std::memcpy(to + 1 + 2 * s, &bytes, sizeof bytes);
    at = end;
  }
  return static_cast<std::size_t>(at - to);
}

std::size_t unpack(const Tables& tables, const std::byte* from, std::size_t available, std::size_t n,
                   std::uint8_t* symbols) noexcept {
  if (available < kHead) return 0;
  const std::size_t table = std::to_integer<std::size_t>(from[0]) - 1;
  if (table >= kTables) return 0;
  // No stream that pack wrote is longer. So a read of one that it did not write stops before `reach`.
  const std::size_t longest = ((n + kStreams - 1) / kStreams * kMaxBits + 7) / 8;
  std::array<std::size_t, kStreams + 1> begin{kHead};
  for (std::size_t s = 0; s < kStreams; ++s) {
    std::uint16_t bytes;
    std::memcpy(&bytes, from + 1 + 2 * s, sizeof bytes);
    if (bytes > longest) return 0;
    begin[s + 1] = begin[s] + bytes;
  }
  const std::size_t end = begin[kStreams], reach = end + longest + 8;
  if (end > available) return 0;
  if (reach <= available) return read_streams(tables.table[table], from, begin, n, symbols) ? end : 0;
  std::array<std::byte, kHead + (kStreams + 1) * (kMostSymbols / kStreams * kMaxBits / 8 + 1) + 8> padded;
  std::memcpy(padded.data(), from, end);
  std::memset(padded.data() + end, 0, reach - end);
  return read_streams(tables.table[table], padded.data(), begin, n, symbols) ? end : 0;
}

}  // namespace mq::kernels::entropy
