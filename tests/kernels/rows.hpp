// Runs a property over every row of the table: codec, parameters, element type, instruction set. Arrays are
// surrounded by canaries, so that every test also checks that nothing is written outside. rows.cpp has what
// takes longer to compile than a test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/codec.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {

inline constexpr kernels::Feedback kFeedbacks[]{kernels::Feedback::none, kernels::Feedback::carry,
                                                kernels::Feedback::deposit};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
double squares(const std::vector<T>& x) {
  double sum = 0;
  for (const T v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

template <class T>
double squared_error(const std::vector<T>& x, const std::vector<T>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += d * d;
  }
  return sum;
}

template <class T>
T ulp(T x) {
  return std::nextafter(std::abs(x), std::numeric_limits<T>::infinity()) - std::abs(x);
}

// Replaces some elements by NaN and infinities; gives their number. At least one if x is not empty.
template <class T>
std::uint64_t plant_nonfinite(std::vector<T>& x, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const T specials[]{std::numeric_limits<T>::quiet_NaN(), kInf, -kInf};
  for (std::size_t k = 0; k < x.size() / 50 + 1 && !x.empty(); ++k)
    x[random() % x.size()] = specials[random() % 3];
  std::uint64_t count = 0;
  for (const T v : x) count += !std::isfinite(v);
  return count;
}

// n elements at any byte offset, between canaries.
template <class T>
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t shift)
      : bytes_(bytes), begin_(kCanary + shift), memory_(filled(begin_ + bytes + kCanary)) {}
  std::byte* data() { return memory_.data() + begin_; }
  void set(const std::vector<T>& v) {
    if (!v.empty()) std::memcpy(data(), v.data(), v.size() * sizeof(T));
  }
  std::vector<T> get(std::size_t n) {
    std::vector<T> v(n);
    if (n) std::memcpy(v.data(), data(), n * sizeof(T));
    return v;
  }
  bool intact() const {
    const auto filled_from = [&](std::size_t from, std::size_t to) {
      return std::all_of(memory_.data() + from, memory_.data() + to, [](std::byte b) { return b == kFill; });
    };
    return filled_from(0, begin_) && filled_from(begin_ + bytes_, memory_.size());
  }

 private:
  static constexpr std::size_t kCanary = 192;
  static constexpr std::byte kFill{0xa5};
  // Not inlined: GCC 12 at -O3 else warns of a size that wrapped around, which no caller asks for.
  [[gnu::noinline]] static std::vector<std::byte> filled(std::size_t bytes) {
    return std::vector<std::byte>(bytes, kFill);
  }
  std::size_t bytes_, begin_;
  std::vector<std::byte> memory_;
};

template <class T>
struct Coded {
  std::vector<std::byte> wire;
  std::vector<T> residual, decoded;
  std::uint64_t nonfinite = 0, overflows = 0;
};

template <class T>
struct Row {
  using Type = T;
  static constexpr kernels::Element kElement = sizeof(T) == 4 ? kernels::Element::f32 : kernels::Element::f64;
  const kernels::Codec* codec;
  kernels::Params params;
  kernels::Isa isa;

  const kernels::CodecOps& ops() const { return *codec->ops(kElement, isa); }
  std::size_t block() const { return codec->block(params); }
  std::size_t bound(std::size_t n) const { return codec->wire_bound(n, kElement, params); }
  Row with(kernels::Isa other) const { return {codec, params, other}; }
  std::string params_text() const;  // ",block=2048,means=tensor"
  std::string describe(std::size_t n, std::string_view what) const;
  // Around groups of 32 lanes and around blocks; of the longest blocks, and with sanitizers, fewer.
  std::vector<std::size_t> lengths() const;

  // Encode, then decode; an empty residual means none.
  Coded<T> run(const std::vector<T>& x, const std::vector<T>& residual, kernels::Feedback feedback,
               std::size_t shift = 0, const kernels::NoiseIndex& noise = {}) const;
  kernels::Decoded decode(const std::vector<std::byte>& wire, std::size_t n, const T* base, T* x) const {
    return ops().decode({wire.data(), wire.size(), n, params, base, x});
  }
  // Decodes wire from an allocation of exactly its size into a guarded array, with and without base.
  kernels::Decoded decode_guarded(const std::vector<std::byte>& wire, std::size_t n) const;
};

// A codec with parameters on an instruction set.
struct AnyRow {
  const kernels::Codec* codec;
  kernels::Params params;
  kernels::Isa isa;
};

std::size_t position(const kernels::Codec& codec, std::string_view param);
// The preset parameters, and the extremes or words of each parameter; rows and ld mean nothing one at a time.
// A codec with long blocks gets shorter ones, so that the tests do not take minutes.
std::vector<kernels::Params> param_sets(const kernels::Codec& codec);

// Every row this processor can run; if MPIQ_TEST_CODEC names a codec, its rows.
std::vector<AnyRow> all_rows();
std::vector<AnyRow> rows_of(std::string_view codec);  // at least one

// Calls property(Row<T>) for both element types.
template <class F>
void for_each_element(const AnyRow& row, const F& property) {
  property(Row<float>{row.codec, row.params, row.isa});
  property(Row<double>{row.codec, row.params, row.isa});
}

template <class F>
void for_each_row(const F& property) {
  for (const AnyRow& row : all_rows()) for_each_element(row, property);
}

template <class F>
void for_each_row_of(std::string_view codec, const F& property) {
  for (const AnyRow& row : rows_of(codec)) for_each_element(row, property);
}

using NamedValues = std::vector<std::pair<std::string_view, double>>;
kernels::Params with_values(const kernels::Codec& codec, const NamedValues& values);

// Calls property(Row<T>) for both element types and every instruction set.
template <class F>
void for_each_isa(std::string_view name, const NamedValues& values, const F& property) {
  const kernels::Codec& codec = *kernels::find_codec(name);
  const kernels::Params params = with_values(codec, values);
  for (const kernels::Isa isa : kernels::kIsas)
    if (isa <= kernels::best_isa()) for_each_element({&codec, params, isa}, property);
}

inline Row<float> fastest(std::string_view name, const NamedValues& values) {
  const kernels::Codec& codec = *kernels::find_codec(name);
  return {&codec, with_values(codec, values), kernels::best_isa()};
}

}  // namespace mq::test
