// Sparse vectors for tests: which indices a rank has, by distribution, and values for them. The same
// arguments give the same vector everywhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mq::test {

enum class Spread : std::uint8_t {
  uniform,
  power_law,   // small indices are likely, on all ranks
  clustered,   // runs of neighbours
  correlated,  // all ranks have half of the indices in common
  disjoint,    // no index is on two ranks
  identical,   // every rank has the same
};
inline constexpr Spread kSpreads[] = {Spread::uniform,    Spread::power_law, Spread::clustered,
                                      Spread::correlated, Spread::disjoint,  Spread::identical};
inline std::string name(Spread s) {
  constexpr const char* names[] = {"uniform",    "power_law", "clustered",
                                   "correlated", "disjoint",  "identical"};
  return names[static_cast<std::size_t>(s)];
}

struct SparseShape {
  Spread spread = Spread::uniform;
  std::uint64_t size = 0;   // indices are below; at most 2^63
  std::uint64_t count = 0;  // wanted; a list is shorter where the spread has no more to give
  int rank = 0, ranks = 1;
  std::uint64_t seed = 1;
};

namespace detail {

inline std::uint64_t below(std::mt19937_64& random, std::uint64_t limit) {
  return std::uniform_int_distribution<std::uint64_t>(0, limit - 1)(random);
}

inline void tidy(std::vector<std::uint64_t>& indices) {
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
}

// `count` different indices below `size`, each as likely as every other.
inline std::vector<std::uint64_t> uniform(std::mt19937_64& random, std::uint64_t size, std::uint64_t count) {
  std::vector<std::uint64_t> indices;
  count = std::min(count, size);
  if (size / 8 <= count) {  // each position in turn, with the odds that are left (Knuth's algorithm S)
    for (std::uint64_t i = 0, left = count; left > 0; ++i)
      if (below(random, size - i) < left) {
        indices.push_back(i);
        --left;
      }
    return indices;
  }
  while (indices.size() < count) {
    for (std::uint64_t i = indices.size(); i < count; ++i) indices.push_back(below(random, size));
    tidy(indices);
  }
  return indices;
}

inline std::vector<std::uint64_t> clustered(std::mt19937_64& random, std::uint64_t size,
                                            std::uint64_t count) {
  std::vector<std::uint64_t> indices;
  for (int tries = 0; tries < 8 && indices.size() < count; ++tries) {
    for (std::uint64_t n = indices.size(); n < count;) {
      const std::uint64_t run = std::min<std::uint64_t>(1 + below(random, 64), count - n);
      const std::uint64_t start = below(random, size);
      for (std::uint64_t i = start; i < start + run && i < size; ++i) indices.push_back(i);
      n += run;
    }
    tidy(indices);
    if (indices.size() > count) indices.resize(count);
  }
  return indices;
}

}  // namespace detail

// Strictly ascending.
inline std::vector<std::uint64_t> sparse_indices(const SparseShape& shape) {
  std::vector<std::uint64_t> indices;
  if (shape.size == 0) return indices;
  std::mt19937_64 common(shape.seed);
  std::mt19937_64 own(shape.seed * 1000003 + static_cast<std::uint64_t>(shape.rank) + 1);
  const auto p = static_cast<std::uint64_t>(shape.ranks), r = static_cast<std::uint64_t>(shape.rank);
  const std::uint64_t count = std::min(shape.count, shape.size);
  switch (shape.spread) {
    case Spread::uniform: return detail::uniform(own, shape.size, count);
    case Spread::identical: return detail::uniform(common, shape.size, count);
    case Spread::clustered: return detail::clustered(own, shape.size, count);
    case Spread::disjoint: {
      const std::uint64_t mine = shape.size / p + (shape.size % p > r);
      indices = detail::uniform(own, mine, std::min(count, mine));
      for (std::uint64_t& index : indices) index = index * p + r;
      return indices;
    }
    case Spread::correlated: {
      indices = detail::uniform(common, shape.size, count / 2);
      const std::vector<std::uint64_t> rest = detail::uniform(own, shape.size, count - count / 2);
      indices.insert(indices.end(), rest.begin(), rest.end());
      detail::tidy(indices);
      return indices;
    }
    case Spread::power_law: {
      const double top = std::log(static_cast<double>(shape.size));
      std::uniform_real_distribution<double> exponent(0, top);
      for (std::uint64_t i = 0; i < count; ++i) {
        const double x = std::exp(exponent(own)) - 1;
        indices.push_back(std::min(static_cast<std::uint64_t>(x), shape.size - 1));
      }
      detail::tidy(indices);
      return indices;
    }
  }
  return indices;
}

enum class ValueKind : std::uint8_t {
  integers,  // small: every sum of up to 2^16 of them is exact in float
  reals,     // of both signs and many magnitudes, so that the order of a sum shows in its bits
};

template <class T>
std::vector<T> sparse_values(ValueKind kind, std::size_t count, std::uint64_t seed, int rank) {
  std::mt19937_64 random(seed * 7919 + static_cast<std::uint64_t>(rank) + 17);
  std::vector<T> values(count);
  for (T& value : values) {
    const auto bits = random();
    value = kind == ValueKind::integers
                ? static_cast<T>(static_cast<int>(bits % 201) - 100)
                : static_cast<T>(std::ldexp(static_cast<double>(bits >> 12) / (1ull << 51) - 1.0,
                                            static_cast<int>(bits % 24) - 12));
  }
  return values;
}

}  // namespace mq::test
