// What memory rules are written with, and how their functions become a row. A rule (kernels/memory/) has
// kName, kId, kWhat, kSpecs, kArrays and, if it needs more than the codecs' own feedback, before<T>(tile); if
// it needs them, after<T>(tile), kEncodesOwn, kKeepsSums, and measures(params) with factor(norm, params,
// ranks). A rule with estimates has terms(params) and the functions of estimates-inl.hpp. Functions that take
// a tile begin with MQ_RULE. Included once per instruction set. For GPUs kernels/cuda/memory_lanes.cuh gives
// Lanes, array_at and for_each_group, and this file is empty.
#pragma once
#ifndef MQ_DEVICE

// n elements in memory of any alignment, 32 at a time.
template <class T, class Byte>
struct Groups {
  Byte* first;
  template <class W>
  MQ_INLINE Lanes<T> get(std::size_t g, W width) const {
    return Lanes<T>::load(first + g * kLanes * sizeof(T), width);
  }
  template <class W>
  MQ_INLINE void put(std::size_t g, const Lanes<T>& v, W width) const {
    v.store(first + g * kLanes * sizeof(T), width);
  }
  MQ_INLINE void ask(std::size_t g) const { ask_ahead<T>(first, g); }
  // Prefetches group g of the next tile, so that it comes from memory while the codec computes. n: elements
  // of a tile. Long tiles, of codecs with long blocks, would leave the cache before they are used: there the
  // codec's own prefetches serve.
  MQ_INLINE void ask_next(std::size_t g, std::size_t n) const {
    constexpr std::size_t kLongest = std::size_t{16} << 10;
    if (n * sizeof(T) > kLongest) return;
    for (std::size_t line = 0; line < kLanes * sizeof(T); line += 64)
      __builtin_prefetch(first + (g * kLanes + n) * sizeof(T) + line);
  }
};
template <class T>
MQ_INLINE Groups<T, const std::byte> array_at(const void* p) {
  return {static_cast<const std::byte*>(p)};
}
template <class T>
MQ_INLINE Groups<T, std::byte> array_at(void* p) {
  return {static_cast<std::byte*>(p)};
}

// Calls f(group, width) for all groups of n elements.
template <class F>
MQ_INLINE void for_each_group(std::size_t n, F&& f) {
  const std::size_t whole = n / kLanes, rest = n % kLanes;
  for (std::size_t g = 0; g < whole; ++g) f(g, Whole{});
  if (rest) f(whole, Part{rest});
}

// An element at any address, as a double.
template <class T>
MQ_INLINE double number_at(const void* array, std::size_t i) {
  T element;
  std::memcpy(&element, static_cast<const std::byte*>(array) + i * sizeof(T), sizeof(T));
  return static_cast<double>(element);
}

// The sum of term(i) for n elements, in the order of memory_sums.hpp.
template <class Term>
MQ_INLINE double sum_in_order(std::size_t n, const Term& term) {
  constexpr std::size_t kSums = memory_sums::kSums;
  std::array<double, kSums> sum{};
  std::size_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::size_t k = 0; k < kSums; ++k) sum[k] += term(i + k);
  for (std::size_t k = 0; i < n; ++i, ++k) sum[k] += term(i);
  for (std::size_t half = kSums / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) sum[k] += sum[k + half];
  return sum[0];
}

template <class T>
double sum_of_squares(const void* x, std::size_t n, double scale) noexcept {
  const DefaultFloatingPoint environment;
  return sum_in_order(n, [&](std::size_t i) { return memory_sums::square(number_at<T>(x, i), scale); });
}

template <class T>
Distances sums_of_distances(const MemoryTile& tile, double scale) noexcept {
  const DefaultFloatingPoint environment;
  const auto terms = [&](std::size_t i) {
    return memory_sums::distances(number_at<T>(tile.x, i), number_at<T>(tile.array[0], i),
                                  number_at<T>(tile.array[2], i), scale);
  };
  return {sum_in_order(tile.n, [&](std::size_t i) { return terms(i).from_estimate; }),
          sum_in_order(tile.n, [&](std::size_t i) { return terms(i).from_last; })};
}

MQ_INLINE double norm_of(double squares, double scale) noexcept {
  const DefaultFloatingPoint environment;
  return std::min(std::sqrt(squares) / scale, std::numeric_limits<double>::max());
}

template <class Rule>
struct MemoryRowOf {
  template <class T>
  static Operand before(const MemoryTile& tile) noexcept {
    const DefaultFloatingPoint environment;
    return Rule::template before<T>(tile);
  }
  template <class T>
  static void after(const MemoryTile& tile) noexcept {
    const DefaultFloatingPoint environment;
    Rule::template after<T>(tile);
  }
  static double factor(double norm, const Params& params, int ranks) noexcept {
    const DefaultFloatingPoint environment;
    return Rule::factor(norm, params, ranks);
  }
  static double norm(double squares, double scale) noexcept { return norm_of(squares, scale); }
  template <class T>
  static void deliver(const MemoryTile& tile, void* sum) noexcept {
    const DefaultFloatingPoint environment;
    Rule::template deliver<T>(tile, sum);
  }
  template <class T>
  static void skip(const MemoryTile& tile) noexcept {
    const DefaultFloatingPoint environment;
    Rule::template skip<T>(tile);
  }
  template <class T>
  static constexpr MemoryOps ops() {
    MemoryOps ops;
    if constexpr (requires { &Rule::template before<T>; }) ops.before = &before<T>;
    if constexpr (requires { &Rule::template after<T>; }) ops.after = &after<T>;
    if constexpr (requires { &Rule::factor; }) {
      ops.factor = &factor;
      ops.squares = &sum_of_squares<T>;
      ops.norm = &norm;
    }
    if constexpr (requires { &Rule::template deliver<T>; }) ops.deliver = &deliver<T>;
    if constexpr (requires { &Rule::template skip<T>; }) ops.skip = &skip<T>;
    if constexpr (keeps_estimates()) ops.distances = &sums_of_distances<T>;
    return ops;
  }
  static bool measures(const Params& params) noexcept {
    if constexpr (requires { &Rule::measures; })
      return Rule::measures(params);
    else
      return false;
  }
  static constexpr bool encodes_own() {
    if constexpr (requires { Rule::kEncodesOwn; })
      return Rule::kEncodesOwn;
    else
      return false;
  }
  static constexpr bool keeps_sums() {
    if constexpr (requires { Rule::kKeepsSums; })
      return Rule::kKeepsSums;
    else
      return true;
  }
  static constexpr bool keeps_estimates() {
    return requires { &Rule::terms; };
  }
  static constexpr bool mirrors() {
    if constexpr (requires { Rule::kMirrors; })
      return Rule::kMirrors;
    else
      return false;
  }
  static EstimateTerms terms(const Params& params) noexcept {
    if constexpr (keeps_estimates())
      return Rule::terms(params);
    else
      return {};
  }
  static constexpr MemoryRow row() { return {ops<float>(), ops<double>()}; }
  static MemoryRule rule() noexcept {
    return {Rule::kName,  Rule::kId,         Rule::kWhat,
            Rule::kSpecs, Rule::kArrays,     encodes_own() || keeps_estimates(),
            keeps_sums(), keeps_estimates(), mirrors(),
            nullptr,      &measures,         &terms};
  }
};
#endif  // MQ_DEVICE
