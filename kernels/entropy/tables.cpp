// Makes the tables: a prior for each, the weights of its codes, and the best prefix code for them.
#include "kernels/entropy/tables.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace mq::kernels::entropy {
namespace {

// Generalised normal distributions: the density at x, a share of the greatest magnitude of a block, is
// 2^(-steepness x^shape). Shape 2 is normal, 1 is Laplace's, kRoot is 1/2. The steepness says how far the
// greatest element of a block is out: 6 is what blocks of 256 normal numbers have. In gradients, blocks or
// elements may be 0 beside others that are not: `zeros` of 16 elements are.
struct Prior {
  enum Shape : std::uint8_t { kRoot, kLinear, kSquare } shape;
  std::uint64_t steepness, zeros;
};
constexpr std::array<Prior, kTables> kPriors{{{Prior::kSquare, 6, 0},
                                              {Prior::kSquare, 8, 0},
                                              {Prior::kLinear, 6, 0},
                                              {Prior::kLinear, 9, 0},
                                              {Prior::kRoot, 8, 0},
                                              {Prior::kLinear, 9, 4},
                                              {Prior::kLinear, 9, 8},
                                              {Prior::kSquare, 6, 12}}};

// The greatest magnitude of a block is itself an element. So the code at either end has at least this share.
constexpr int kEndShare = 1024;

using Weights = std::array<std::uint64_t, 256>;

// 2^-x in units of 2^-32, for x in units of 2^-16.
std::uint64_t power_of_half(std::uint64_t x) {
  // 2^(32 - 2^-i) for i from 1 on.
  constexpr std::array<std::uint64_t, 16> kRoots{
      3037000500, 3611622603, 3938502376, 4112874773, 4202935003, 4248701965, 4271771996, 4283353945,
      4289156690, 4292061010, 4293513907, 4294240540, 4294603903, 4294785595, 4294876445, 4294921870};
  if (x >> 16 >= 32) return 0;
  std::uint64_t power = std::uint64_t{1} << 32;
  for (std::size_t i = 0; i < kRoots.size(); ++i)
    if ((x >> (15 - i) & 1) != 0) power = power * kRoots[i] >> 32;
  return power >> (x >> 16);
}

std::uint64_t square_root(std::uint64_t x) {
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 31; bit != 0; bit >>= 1)
    if ((root | bit) * (root | bit) <= x) root |= bit;
  return root;
}

// The density at x = i / n.
std::uint64_t density(const Prior& prior, std::uint64_t i, std::uint64_t n) {
  const std::uint64_t x = (i << 16) / n;
  switch (prior.shape) {
    case Prior::kRoot: return power_of_half(prior.steepness * square_root(x << 16));
    case Prior::kLinear: return power_of_half(prior.steepness * x);
    case Prior::kSquare: return power_of_half(prior.steepness * (x * x >> 16));
  }
  return 0;
}

// Makes the weights of `count` codes add up to about 2^bits, none of them 0.
void normalise(Weights& weights, std::size_t count, int bits) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += weights[i];
  const std::uint64_t unit = (sum >> bits) + 1;
  for (std::size_t i = 0; i < count; ++i) weights[i] = std::max<std::uint64_t>(1, weights[i] / unit);
}

// The weights of the codes 0 to 2 limit + 1. A code's weight is the density around its place: of what is
// nearest, or of what goes there at random. Code 0, for NaN and Inf, is rare.
Weights integer_weights(const Prior& prior, int bits, bool stochastic) {
  const std::uint64_t limit = (1u << (bits - 1)) - 1;
  const std::uint64_t half = std::max<std::uint64_t>(1, 64 / limit), step = 2 * half, n = limit * step;
  std::array<std::uint64_t, 128> at{};  // by magnitude, on both sides together
  for (std::uint64_t i = 0; i <= n; ++i) {
    const std::uint64_t there = density(prior, i, n) * (i == 0 || i == n ? 1 : 2);
    const std::uint64_t below = i / step, over = i % step;
    if (stochastic) {
      at[below] += there * (step - over) / step;
      if (over != 0) at[below + 1] += there * over / step;
    } else if (over == half) {
      at[below] += there / 2, at[below + 1] += there / 2;
    } else {
      at[over < half ? below : below + 1] += there;
    }
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t weight : at) sum += weight;
  at[limit] = std::max(at[limit], 2 * sum / kEndShare);
  for (std::uint64_t& weight : at) weight = weight / 16 * (16 - prior.zeros);
  at[0] += sum / 16 * prior.zeros;
  Weights weights{};
  for (std::uint64_t q = 1; q <= limit; ++q) weights[limit + 1 + q] = weights[limit + 1 - q] = at[q] / 2;
  weights[limit + 1] = at[0];
  normalise(weights, std::size_t{1} << bits, 13);
  return weights;
}

// The weights of symbols, each of several independent codes. 0: the symbol does not exist.
Weights symbol_weights(const Weights& codes, int bits) {
  const int width = symbol_bits(bits);
  Weights weights{};
  for (unsigned symbol = 0; symbol < 256; ++symbol) {
    std::uint64_t product = 1;
    for (int at = 0; at < 8; at += width) {
      const unsigned code = symbol >> at & ((1u << width) - 1);
      product *= code < 1u << bits ? codes[code] : 0;
    }
    weights[symbol] = product;
  }
  return weights;
}

// The lengths of the best prefix code of at most kMaxBits bits, by packages (Larmore and Hirschberg 1990). A
// level's list has the symbols and the packages of two of the level before, by weight.
class Lengths {
 public:
  explicit Lengths(const Weights& weights) {
    for (unsigned symbol = 0; symbol < 256; ++symbol)
      if (weights[symbol] != 0) leaves_[count_++] = {weights[symbol], symbol};
    std::sort(leaves_.begin(), leaves_.begin() + count_);
    for (auto& level : is_leaf_) make_level(level);
    std::size_t taken = 2 * static_cast<std::size_t>(count_) - 2;
    for (std::size_t level = kMaxBits; level-- > 0;) {
      std::size_t leaves = 0;
      for (std::size_t i = 0; i < taken; ++i)
        if (is_leaf_[level][i]) ++of_[leaves_[leaves++].second];
      taken = 2 * (taken - leaves);
    }
  }
  unsigned of(unsigned symbol) const { return of_[symbol]; }

 private:
  void make_level(std::array<bool, 512>& is_leaf) {
    std::array<std::uint64_t, 512> merged{};
    const std::size_t leaves = static_cast<std::size_t>(count_), packages = listed_ / 2;
    std::size_t leaf = 0, package = 0;
    for (std::size_t i = 0; i < leaves + packages; ++i) {
      const std::uint64_t pair = package < packages ? list_[2 * package] + list_[2 * package + 1] : 0;
      is_leaf[i] = package == packages || (leaf < leaves && leaves_[leaf].first <= pair);
      merged[i] = is_leaf[i] ? leaves_[leaf++].first : pair;
      if (!is_leaf[i]) ++package;
    }
    list_ = merged;
    listed_ = leaves + packages;
  }

  std::array<std::pair<std::uint64_t, unsigned>, 256> leaves_{};
  std::ptrdiff_t count_ = 0;
  std::array<std::uint64_t, 512> list_{};
  std::size_t listed_ = 0;
  std::array<std::array<bool, 512>, kMaxBits> is_leaf_{};
  std::array<std::uint8_t, 256> of_{};
};

// Codes are sorted by length, and codes of equal length by their symbols. The first bit is the lowest.
void make_table(Table& table, const Lengths& lengths) {
  std::uint32_t next = 0;  // the highest bit is the first one
  for (unsigned length = 1; length <= kMaxBits; ++length, next <<= 1)
    for (unsigned symbol = 0; symbol < 256; ++symbol) {
      if (lengths.of(symbol) != length) continue;
      std::uint32_t code = 0;
      for (unsigned bit = 0; bit < length; ++bit) code |= (next >> bit & 1) << (length - 1 - bit);
      ++next;
      table.code[symbol] = code | length << 16;
      for (std::uint32_t bits = code; bits < 1u << kMaxBits; bits += 1u << length)
        table.entry[bits] = static_cast<std::uint16_t>(symbol << 8 | length);
    }
}

struct Made : Tables {
  Made(int bits, bool stochastic) : Tables{} {
    for (std::size_t t = 0; t < kTables; ++t) {
      const Lengths made(symbol_weights(integer_weights(kPriors[t], bits, stochastic), bits));
      make_table(table[t], made);
      for (unsigned symbol = 0; symbol < 256; ++symbol)
        lengths[symbol] |= std::uint64_t{made.of(symbol)} << (8 * t);
    }
  }
};

template <int kBits, bool kStochastic>
const Tables& made() {
  static const Made tables(kBits, kStochastic);
  return tables;
}

template <bool kStochastic>
const Tables& made_for(int bits) {
  constexpr std::array kMade{&made<2, kStochastic>, &made<3, kStochastic>, &made<4, kStochastic>,
                             &made<5, kStochastic>, &made<6, kStochastic>, &made<7, kStochastic>,
                             &made<8, kStochastic>};
  return kMade[static_cast<std::size_t>(bits - 2)]();
}

}  // namespace

const Tables& integer_tables(int bits, bool stochastic) noexcept {
  return stochastic ? made_for<true>(bits) : made_for<false>(bits);
}

}  // namespace mq::kernels::entropy
