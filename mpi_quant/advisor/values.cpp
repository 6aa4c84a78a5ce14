#include "mpi_quant/advisor/values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "mpi_quant/base/figures.hpp"

namespace mq {
namespace {

constexpr double kGreatest = std::numeric_limits<double>::max();

// A warning is given if at least this share of the values is concerned. The share is chosen, not measured.
constexpr double kMany = 0.5;

int exponent_of(double v) {
  const int biased = static_cast<int>(std::bit_cast<std::uint64_t>(v) >> 52 & 0x7ff);
  return biased != 0 ? biased - 1023 : std::ilogb(v);  // subnormal
}

template <class T>
void add_values(const std::byte* x, std::size_t count, ValueStatistics& s) {
  constexpr double kWholeBelow = static_cast<double>(std::int64_t{1} << std::numeric_limits<T>::digits);
  for (std::size_t i = 0; i < count; ++i) {
    T stored;
    std::memcpy(&stored, x + i * sizeof(T), sizeof(T));
    const double v = static_cast<double>(stored), magnitude = std::abs(v);
    if (!(magnitude <= kGreatest)) {
      ++s.nonfinite;
    } else if (magnitude == 0) {
      ++s.zeros;
    } else {
      s.whole +=
          magnitude <= kWholeBelow && static_cast<double>(static_cast<std::int64_t>(magnitude)) == magnitude;
      const int exponent = exponent_of(v);
      s.min_exponent = std::min(s.min_exponent, exponent);
      s.max_exponent = std::max(s.max_exponent, exponent);
      s.squares += v * v;
    }
  }
  s.n += count;
  s.squares = std::min(s.squares, kGreatest);
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void ValueStatistics::add(const std::byte* x, std::size_t count, kernels::Element element) {
  if (element == kernels::Element::f32) add_values<float>(x, count, *this);
  if (element == kernels::Element::f64) add_values<double>(x, count, *this);
}

void ValueStatistics::merge(const ValueStatistics& other) {
  n += other.n;
  zeros += other.zeros;
  whole += other.whole;
  nonfinite += other.nonfinite;
  min_exponent = std::min(min_exponent, other.min_exponent);
  max_exponent = std::max(max_exponent, other.max_exponent);
  squares = std::min(squares + other.squares, kGreatest);
}

double ValueStatistics::rms() const {
  return n == nonfinite ? 0 : std::sqrt(squares / static_cast<double>(n - nonfinite));
}

std::string words(const ValueStatistics& s) {
  if (s.n == 0) return "no values seen";
  if (s.n == s.zeros) return "only zeros";
  if (s.n == s.nonfinite) return "only NaN or Inf";
  std::string text = "rms " + short_number(s.rms());
  if (s.min_exponent <= s.max_exponent)
    text += ", magnitudes from 2^" + std::to_string(s.min_exponent) + " to 2^" +
            std::to_string(s.max_exponent + 1);
  if (s.zeros > 0) text += ", " + percent(share(s.zeros, s.n)) + " zeros";
  if (s.whole > 0) text += ", " + percent(share(s.whole, s.n)) + " whole numbers";
  return text;
}

bool mostly_whole(const ValueStatistics& s) { return share(s.whole, s.n - s.zeros - s.nonfinite) >= kMany; }

std::vector<std::string> warnings(const ValueStatistics& s) {
  std::vector<std::string> out;
  if (mostly_whole(s))
    out.push_back(percent(share(s.whole, s.n - s.zeros - s.nonfinite)) +
                  " of what is not 0 are whole numbers: counts or indices?");
  if (const double part = share(s.zeros, s.n); part >= kMany)
    out.push_back(percent(part) + " are zeros: a sparse method may serve better");
  if (s.nonfinite > 0)
    out.push_back("NaN or Inf seen: " + std::to_string(s.nonfinite) + " of " + std::to_string(s.n) +
                  " values");
  return out;
}

}  // namespace mq
