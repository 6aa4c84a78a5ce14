#include "mpi_quant/engine/mean.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "mpi_quant/base/float_mode.hpp"

namespace mq {
namespace {

constexpr std::size_t kPart = 1024;  // elements that stay in the L1 cache
constexpr std::size_t kHalf = 2;     // bytes of an element of a half type

// A product with 1 / divisor has the same bits if the divisor is a power of two, and takes a fraction of the
// time.
template <class T>
void divide_part(std::array<T, kPart>& part, T divisor) noexcept {
  int exponent = 0;
  const T factor = 1 / divisor;
  if (std::frexp(divisor, &exponent) == T(0.5))
    for (T& v : part) v *= factor;
  else
    for (T& v : part) v /= divisor;
}

// x has any alignment.
template <class T>
void divide_all(std::byte* x, std::size_t n, T divisor) noexcept {
  std::array<T, kPart> part{};
  for (std::size_t first = 0; first < n; first += kPart) {
    const std::size_t bytes = std::min(kPart, n - first) * sizeof(T);
    std::memcpy(part.data(), x + first * sizeof(T), bytes);
    divide_part(part, divisor);
    std::memcpy(x + first * sizeof(T), part.data(), bytes);
  }
}

}  // namespace

void divide(void* x, std::size_t n, kernels::Element element, int divisor) noexcept {
  const DefaultFloats mode;
  if (element == kernels::Element::f64)
    divide_all(static_cast<std::byte*>(x), n, static_cast<double>(divisor));
  else
    divide_all(static_cast<std::byte*>(x), n, static_cast<float>(divisor));
}

void divide_to_half(const kernels::ConvertOps& convert, const void* sum, void* half, void* residual,
                    std::size_t n, int divisor) noexcept {
  if (divisor == 1) return convert.narrow(sum, half, residual, n);
  const DefaultFloats mode;
  const auto* const sums = static_cast<const float*>(sum);
  auto* const halves = static_cast<std::byte*>(half);
  auto* const kept = static_cast<float*>(residual);
  const auto ranks = static_cast<float>(divisor);
  std::array<float, kPart> mean{};
  for (std::size_t first = 0; first < n; first += kPart) {
    const std::size_t m = std::min(kPart, n - first);
    for (std::size_t i = 0; i < m; ++i) mean[i] = sums[first + i] / ranks;
    convert.narrow(mean.data(), halves + first * kHalf, nullptr, m);
    if (kept == nullptr) continue;
    convert.widen(halves + first * kHalf, mean.data(), m);
    for (std::size_t i = 0; i < m; ++i) {
      const float with_loss = kept[first + i] + (sums[first + i] - ranks * mean[i]);
      if (std::isfinite(with_loss)) kept[first + i] = with_loss;
    }
  }
}

}  // namespace mq
