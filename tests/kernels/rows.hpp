// Runs a property over every row of the table: codec, parameters, element type, instruction set. Arrays are
// surrounded by canaries, so that every test also checks that nothing is written outside.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>
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
  // ",block=2048,means=tensor"
  std::string params_text() const {
    std::ostringstream text;
    for (std::size_t i = 0; i < codec->specs.size(); ++i) {
      const kernels::ParamSpec& spec = codec->specs[i];
      text << "," << spec.name << "=";
      if (spec.kind == kernels::ParamKind::word)
        text << spec.words[static_cast<std::size_t>(params.value[i])];
      else
        text << params.value[i];
    }
    return text.str();
  }
  std::string describe(std::size_t n, std::string_view what) const {
    const std::string text = std::string(codec->name) + " " + std::string(name(kElement)) + " " +
                             std::string(name(isa)) + params_text();
    return text + " n=" + std::to_string(n) + " " + std::string(what) + " ";
  }
  // Around groups of 32 lanes and around blocks; of the longest blocks, and with sanitizers, fewer.
  std::vector<std::size_t> lengths() const {
    const std::size_t b = block();
    if (b > 16384 || kSanitized) return {0, 1, 33, b - 1, b + 33};
    return {0, 1, 7, 8, 31, 32, 33, 63, b - 1, b, b + 1, 2 * b + 33};
  }

  // Encode, then decode; an empty residual means none.
  Coded<T> run(const std::vector<T>& x, const std::vector<T>& residual, kernels::Feedback feedback,
               std::size_t shift = 0, const kernels::NoiseIndex& noise = {}) const {
    const std::size_t n = x.size();
    Guarded<T> in(n * sizeof(T), shift), error(residual.size() * sizeof(T), shift);
    Guarded<std::byte> wire(bound(n), shift);
    in.set(x);
    error.set(residual);
    const kernels::Encoded encoded =
        ops().encode({in.data(), residual.empty() && n > 0 ? nullptr : error.data(), feedback, n, params,
                      wire.data(), noise});
    EXPECT_TRUE(in.intact() && error.intact() && wire.intact()) << describe(n, "encode wrote outside");
    EXPECT_TRUE(same_bits(in.get(n), x)) << describe(n, "encode changed its input");
    EXPECT_LE(encoded.bytes, bound(n)) << describe(n, "bound");
    Coded<T> coded{
        wire.get(encoded.bytes), error.get(residual.size()), {}, encoded.nonfinite, encoded.overflows};
    Guarded<T> out(n * sizeof(T), shift);
    EXPECT_EQ(ops().decode({wire.data(), encoded.bytes, n, params, nullptr, out.data(), false, noise}),
              kernels::Decoded::ok)
        << describe(n, "own wire");
    EXPECT_TRUE(out.intact()) << describe(n, "decode wrote outside");
    coded.decoded = out.get(n);
    return coded;
  }
  kernels::Decoded decode(const std::vector<std::byte>& wire, std::size_t n, const T* base, T* x) const {
    return ops().decode({wire.data(), wire.size(), n, params, base, x});
  }
  // Decodes wire from an allocation of exactly its size into a guarded array, with and without base.
  kernels::Decoded decode_guarded(const std::vector<std::byte>& wire, std::size_t n) const {
    Guarded<T> out(n * sizeof(T), 0);
    out.set(std::vector<T>(n));
    const std::vector<std::byte> exact(wire);
    const auto added = ops().decode({exact.data(), exact.size(), n, params, out.data(), out.data()});
    const auto plain = ops().decode({exact.data(), exact.size(), n, params, nullptr, out.data()});
    EXPECT_TRUE(out.intact()) << describe(n, "hostile wire wrote outside");
    EXPECT_EQ(added, plain) << describe(n, "hostile wire");
    return plain;
  }
};

inline std::size_t position(const kernels::Codec& codec, std::string_view param) {
  std::size_t i = 0;
  while (i < codec.specs.size() && codec.specs[i].name != param) ++i;
  return i;
}

// Matrices for codecs that have columns: contiguous and padded, of rows below, at and above a group of 32
// lanes and the pieces in which long blocks are summed.
inline void add_matrices(const kernels::Codec& codec, std::vector<kernels::Params>& sets) {
  const std::size_t rows = position(codec, "rows"), ld = position(codec, "ld");
  if (rows == codec.specs.size()) return;
  const auto set = [&](kernels::Params& params, std::string_view name, double value) {
    if (const std::size_t at = position(codec, name); at < codec.specs.size()) params.value[at] = value;
  };
  kernels::Params matrix = kernels::preset_params(codec);
  set(matrix, "means", 1);
  set(matrix, "lines", 3);  // of several columns
  sets.push_back(matrix);   // columns of unknown length
  const std::array<std::array<double, 3>, 10> shapes{{{1, 0, 0},
                                                      {1, 4, 1},
                                                      {31, 31, 1},
                                                      {31, 34, 0},
                                                      {33, 0, 0},
                                                      {33, 36, 1},
                                                      {2048, 0, 1},
                                                      {2048, 2051, 0},
                                                      {5000, 0, 0},
                                                      {5000, 5003, 1}}};
  for (const auto& shape : shapes) {
    matrix.value[rows] = shape[0];
    matrix.value[ld] = shape[1];
    set(matrix, "split", shape[2]);
    sets.push_back(matrix);
  }
  kernels::Params tensor = kernels::preset_params(codec);
  set(tensor, "means", 2);
  set(tensor, "split", 0);
  sets.push_back(tensor);
}

// The preset parameters, and the extremes or words of each parameter; rows and ld mean nothing one at a time.
// A codec with long blocks gets shorter ones, so that the tests do not take minutes.
inline std::vector<kernels::Params> param_sets(const kernels::Codec& codec) {
  const kernels::Params preset = kernels::preset_params(codec);
  std::vector<kernels::Params> sets{preset};
  kernels::Params usual = preset;
  if (codec.block(preset) > 4096) usual.value[position(codec, "block")] = 1024;
  for (std::size_t i = 0; i < codec.specs.size(); ++i) {
    const kernels::ParamSpec& spec = codec.specs[i];
    if (spec.name == "rows" || spec.name == "ld") continue;
    std::vector<double> values{spec.min, spec.max};
    if (spec.kind == kernels::ParamKind::word)
      for (double word = spec.min + 1; word < spec.max; ++word) values.push_back(word);
    for (const double value : values) {
      sets.push_back(usual);
      sets.back().value[i] = value;
    }
  }
  add_matrices(codec, sets);
  return sets;
}

// Calls property(Row<T>) for every row this processor can run; if MPIQ_TEST_CODEC names a codec, for its
// rows.
template <class F>
void for_each_row(const F& property) {
  const char* const only = std::getenv("MPIQ_TEST_CODEC");
  EXPECT_TRUE(only == nullptr || kernels::find_codec(only) != nullptr) << only;
  for (const kernels::Codec& codec : kernels::codecs()) {
    if (only != nullptr && codec.name != only) continue;
    for (const kernels::Params& params : param_sets(codec))
      for (const kernels::Isa isa : kernels::kIsas) {
        if (isa > kernels::best_isa()) continue;
        property(Row<float>{&codec, params, isa});
        property(Row<double>{&codec, params, isa});
      }
  }
}

template <class F>
void for_each_row_of(std::string_view codec, const F& property) {
  int rows = 0;
  for_each_row([&](const auto& row) {
    if (row.codec->name != codec) return;
    ++rows;
    property(row);
  });
  EXPECT_GT(rows, 0) << codec;
}

using NamedValues = std::vector<std::pair<std::string_view, double>>;

inline kernels::Params with_values(const kernels::Codec& codec, const NamedValues& values) {
  kernels::Params params = kernels::preset_params(codec);
  for (const auto& [name, value] : values) {
    std::size_t at = codec.specs.size();
    for (std::size_t i = 0; i < codec.specs.size(); ++i)
      if (codec.specs[i].name == name) at = i;
    EXPECT_LT(at, codec.specs.size()) << name;
    params.value[at] = value;
  }
  return params;
}

// Calls property(Row<T>) for both element types and every instruction set.
template <class F>
void for_each_isa(std::string_view name, const NamedValues& values, const F& property) {
  const kernels::Codec& codec = *kernels::find_codec(name);
  const kernels::Params params = with_values(codec, values);
  for (const kernels::Isa isa : kernels::kIsas) {
    if (isa > kernels::best_isa()) continue;
    property(Row<float>{&codec, params, isa});
    property(Row<double>{&codec, params, isa});
  }
}

inline Row<float> fastest(std::string_view name, const NamedValues& values) {
  const kernels::Codec& codec = *kernels::find_codec(name);
  return {&codec, with_values(codec, values), kernels::best_isa()};
}

}  // namespace mq::test
