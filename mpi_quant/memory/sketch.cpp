#include "mpi_quant/memory/sketch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "mpi_quant/base/device_copy.hpp"

namespace mq {
namespace {

using Runs = std::array<std::size_t, Sketch::kRuns>;

// Where the runs of a vector of n elements begin. Each of kRuns equal parts has one run, somewhere in it.
// Equal distances would meet the same columns of a matrix again and again. A multiplication spreads the
// numbers of the parts (Fibonacci hashing).
Runs runs_of(std::size_t n) {
  Runs begins;
  const double part = static_cast<double>(n - Sketch::kRun) / Sketch::kRuns;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const auto hash = static_cast<std::uint32_t>(i) * 0x9e3779b9U;
    begins[i] = static_cast<std::size_t>((static_cast<double>(i) + hash * 0x1p-32) * part);
  }
  return begins;
}

// The sum of products, in 16 partial sums, so that the compiler can use vector instructions.
template <class Sum, class A, class B>
Sum dot(const A& a, const B& b) {
  constexpr std::size_t kLanes = 16;
  std::array<Sum, kLanes> lanes{};
  for (std::size_t i = 0; i < Sketch::kMost; i += kLanes)
    for (std::size_t k = 0; k < kLanes; ++k)
      lanes[k] += static_cast<Sum>(a[i + k]) * static_cast<Sum>(b[i + k]);
  Sum sum = 0;
  for (const Sum lane : lanes) sum += lane;
  return sum;
}

// Copies the values that a sketch looks at. Returns false if they could not be read from a device.
template <class T>
bool take(const T* x, std::size_t n, std::array<T, Sketch::kMost>& values) {
  const Result<Where> place = where(x);
  if (!place.ok()) return false;
  const bool whole = n <= Sketch::kMost;
  const Runs begins = whole ? Runs{} : runs_of(n);
  const std::size_t pieces = whole ? 1 : Sketch::kRuns, length = whole ? n : Sketch::kRun;
  std::array<DevicePiece, Sketch::kRuns> from;
  for (std::size_t i = 0; i < pieces; ++i) from[i] = {x + begins[i], length * sizeof(T)};
  if (place->memory != Memory::host)
    return gather_now(*device_api(), place->device, reinterpret_cast<std::byte*>(values.data()),
                      {from.data(), pieces})
        .ok();
  for (std::size_t i = 0; i < pieces; ++i)
    std::copy_n(static_cast<const T*>(from[i].from), length,
                values.begin() + static_cast<std::ptrdiff_t>(i * length));
  return true;
}

}  // namespace

// Counts instead of sorting. Magnitudes that share the exponent and three bits of the mantissa share an
// order.
template <class T>
void Sketch::set_orders(const T* values) {
  T most = 0;
  bool finite = true;
  std::size_t negative = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    finite &= std::isfinite(values[i]);
    most = std::max(most, std::abs(values[i]));
    negative += values[i] < 0;
  }
  finite_ = finite;
  if (!finite || most == 0) return;
  negative_ = static_cast<double>(negative) / static_cast<double>(size_);
  double sum = 0;  // of parts of the greatest: their sum cannot overflow
  for (std::size_t i = 0; i < size_; ++i) sum += static_cast<double>(std::abs(values[i]) / most);
  scale_ = std::log2(static_cast<double>(most)) + std::log2(sum / static_cast<double>(size_));
  // Scales the values so that the greatest is at least 1 and less than 2. All then fit into a float.
  // Two factors are needed, because the inverse of the least number is more than the greatest.
  int exponent = 0;
  (void)std::frexp(most, &exponent);
  const int half = (1 - exponent) / 2;
  const T first = std::ldexp(T{1}, half), second = std::ldexp(T{1}, 1 - exponent - half);
  constexpr int kKeptBits = 20;  // bits that are shifted out of a float's pattern
  constexpr std::size_t kBins = (std::bit_cast<std::uint32_t>(2.0F) >> kKeptBits) + 1;
  std::array<std::uint16_t, kBins> bins{};
  std::array<std::uint16_t, kMost> bin_of;
  for (std::size_t i = 0; i < size_; ++i) {
    const auto magnitude = static_cast<float>(std::abs(values[i]) * first * second);
    bin_of[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(magnitude) >> kKeptBits);
    ++bins[bin_of[i]];
  }
  std::array<std::int8_t, kBins> order_of;
  const auto middle = (static_cast<double>(size_) - 1) / 2;
  double below = 0;
  for (std::size_t b = 0; b < kBins; ++b) {
    const double mean_order = below + (bins[b] - 1) / 2.0;
    order_of[b] =
        static_cast<std::int8_t>(bins[b] > 0 ? std::lround((mean_order - middle) * 127 / middle) : 0);
    below += bins[b];
  }
  for (std::size_t i = 0; i < size_; ++i) orders_[i] = order_of[bin_of[i]];
  norm_ = std::sqrt(dot<std::int32_t>(orders_, orders_));
}

Sketch Sketch::of(const std::byte* x, std::size_t n, kernels::Element element) {
  Sketch sketch;
  sketch.size_ = std::min(n, kMost);
  if (sketch.size_ < 2) return sketch;
  const auto look = [&]<class T>(const T* first) {
    std::array<T, kMost> values;
    sketch.finite_ = take(first, n, values);
    if (sketch.finite_) sketch.set_orders(values.data());
  };
  // Half types are not looked at: few MPI libraries have them.
  if (element == kernels::Element::f64) look(reinterpret_cast<const double*>(x));
  if (element == kernels::Element::f32) look(reinterpret_cast<const float*>(x));
  return sketch;
}

double correlation(const Sketch& a, const Sketch& b, std::size_t shift) {
  if (shift == 0) return dot<std::int32_t>(a.orders(), b.orders()) / (a.norm() * b.norm());
  std::array<std::int8_t, Sketch::kMost> rotated{};
  const auto begin = b.orders().begin();
  std::rotate_copy(begin, begin + static_cast<std::ptrdiff_t>(shift),
                   begin + static_cast<std::ptrdiff_t>(b.size()), rotated.begin());
  return dot<std::int32_t>(a.orders(), rotated) / (a.norm() * b.norm());
}

bool differ_in_kind(const Sketch& a, const Sketch& b) {
  constexpr double kScale = 3;                     // a factor of eight
  constexpr double kOneSign = 0.01, kMixed = 0.1;  // shares of the rarer sign
  const auto rarer = [](const Sketch& s) { return std::min(s.negative(), 1 - s.negative()); };
  const auto [low, high] = std::minmax({rarer(a), rarer(b)});
  return std::abs(a.scale() - b.scale()) > kScale || (low <= kOneSign && high >= kMixed);
}

void MeanSketch::add(const Sketch& next) {
  ++sketches_;
  const auto weight = static_cast<float>(std::max(kWeight, 1 / static_cast<double>(sketches_)));
  for (std::size_t i = 0; i < Sketch::kMost; ++i)
    mean_[i] += weight * (static_cast<float>(next.orders()[i]) - mean_[i]);
  norm_ = std::sqrt(static_cast<double>(dot<float>(mean_, mean_)));
}

double MeanSketch::correlation(const Sketch& other) const {
  return norm_ > 0 ? static_cast<double>(dot<float>(mean_, other.orders())) / (norm_ * other.norm()) : 0;
}

}  // namespace mq
