#include "bench/data.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>
#include <type_traits>
#include <utility>

#include "bench/elements.hpp"

namespace mq::bench {
namespace {

constexpr double kSigma = 1e-3;
// elements that share a deviation in `gradient`, and the period of `ramp`
constexpr std::uint64_t kBlock = 1024;
constexpr int kSines = 8;
constexpr double kNoise = 0.01;      // in `smooth`
constexpr double kMostBound = 1e30;  // of `uniform`, so that sums of floats stay finite

constexpr std::string_view kFile = "file";
constexpr std::array<std::pair<std::string_view, Distribution>, 10> kNames{
    {{"normal", Distribution::normal},
     {"laplace", Distribution::laplace},
     {"gradient", Distribution::gradient},
     {"sparse", Distribution::sparse},
     {"smooth", Distribution::smooth},
     {"uniform", Distribution::uniform},
     {"bits", Distribution::bits},
     {"zeros", Distribution::zeros},
     {"const", Distribution::constant},
     {"ramp", Distribution::ramp}}};

// Independent streams of one seed. The streams of the ranks follow the common ones.
enum Stream : std::uint64_t { kCommonScore, kCommonMask, kBlockScale, kCommonSines, kCommonStreams };
enum RankStream : std::uint64_t { kScore, kMask, kBits, kSinePhase, kRankStreams };

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection whose values for a counter pass the
// usual test batteries.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix(mix(mix(seed + kGolden) + stream * kGolden) + index * kGolden);
}
std::uint64_t stream_of(int rank, RankStream s) {
  return kCommonStreams + static_cast<std::uint64_t>(rank) * kRankStreams + s;
}
double open_fraction(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

template <std::size_t N>
double polynomial(const std::array<double, N>& c, double x) {
  double sum = c[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

// The inverse of the normal distribution function: algorithm AS 241 (Wichura 1988), PPND16. It is exact to 16
// digits, and needs no logarithm for 85 % of the arguments.
double normal_quantile(double u) {
  static constexpr std::array a{3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr std::array b{1.0,
                                4.2313330701600911252e1,
                                6.8718700749205790830e2,
                                5.3941960214247511077e3,
                                2.1213794301586595867e4,
                                3.9307895800092710610e4,
                                2.8729085735721942674e4,
                                5.2264952788528545610e3};
  static constexpr std::array c{1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr std::array d{1.0,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
  static constexpr std::array e{6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr std::array f{1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
  const double q = u - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-std::log(q < 0 ? u : 1.0 - u));
  const double tail = r <= 5.0 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6)
                               : polynomial(e, r - 5.0) / polynomial(f, r - 5.0);
  return q < 0 ? -tail : tail;
}

double normal_fraction(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// Makes a finite T from the top bits. An exponent field among the top 16 (f32: 2^113 and up) loses its
// leading bit. For float16, whose field has 32 values, this holds for the top 8.
template <class T>
T finite_from(std::uint64_t bits) {
  constexpr int kExponentBits = std::is_same_v<T, double> ? 11 : std::is_same_v<T, Float16> ? 5 : 8;
  constexpr std::uint64_t kFields = std::uint64_t{1} << kExponentBits;
  const std::uint64_t field = bits >> (63 - kExponentBits) & (kFields - 1);
  if (field >= kFields - (kExponentBits == 5 ? 8 : 16)) bits &= ~(std::uint64_t{1} << 62);
  if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(bits);
  else if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32));
  else
    return T::from_bits(static_cast<std::uint16_t>(bits >> 48));
}

}  // namespace

std::string distribution_names() {
  std::string text;
  for (const auto& [name, distribution] : kNames)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name,
                        distribution == Distribution::sparse    ? ":p"
                        : distribution == Distribution::uniform ? ":a"
                                                                : "");
  return text;
}

Result<DataSpec> parse_data(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  if (word == kFile) {
    if (colon == std::string_view::npos || colon + 1 == text.size())
      return Status{Code::bad_argument, fmt::format("'{}': which file? It is file:PATH", text)};
    return DataSpec{.distribution = Distribution::file, .path = std::string(text.substr(colon + 1))};
  }
  for (const auto& [name, distribution] : kNames) {
    if (word != name) continue;
    DataSpec spec{.distribution = distribution};
    if (colon == std::string_view::npos) return spec;
    const std::string_view value = text.substr(colon + 1);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc{} && end == value.data() + value.size();
    if (whole && distribution == Distribution::sparse && number > 0 && number <= 1)
      spec.density = number;
    else if (whole && distribution == Distribution::uniform && number > 0 && number <= kMostBound)
      spec.bound = number;
    else
      return Status{Code::bad_argument,
                    fmt::format("'{}': only sparse takes a value, its density in (0, 1], and uniform, its "
                                "largest magnitude in (0, {}]",
                                text, kMostBound)};
    return spec;
  }
  return Status{Code::bad_argument, fmt::format("unknown data '{}'; known: {}", text, distribution_names())};
}

Status check_data(const DataSpec& spec) {
  const auto d = spec.distribution;
  const bool fixed = d == Distribution::bits || d == Distribution::zeros || d == Distribution::constant ||
                     d == Distribution::ramp || d == Distribution::file;
  if (!(spec.rho >= 0 && spec.rho <= 1))
    return {Code::bad_argument, fmt::format("rho is {}, must be in [0, 1]", spec.rho)};
  if (fixed && spec.rho != 0)
    return {Code::bad_argument,
            fmt::format("data '{}' has no correlation between ranks to set", to_string(spec))};
  return {};
}

std::string to_string(const DataSpec& spec) {
  if (spec.distribution == Distribution::file) return fmt::format("{}:{}", kFile, spec.path);
  for (const auto& [name, distribution] : kNames)
    if (distribution == spec.distribution)
      return distribution == Distribution::sparse ? fmt::format("{}:{}", name, spec.density)
             : distribution == Distribution::uniform && spec.bound != 1
                 ? fmt::format("{}:{}", name, spec.bound)
                 : std::string(name);
  return "?";
}

Generator::Generator(const DataSpec& spec, std::shared_ptr<const Recording> recording)
    : spec_(spec),
      recording_(std::move(recording)),
      common_(std::sqrt(spec.rho)),
      own_(std::sqrt(1.0 - spec.rho)) {}

double Generator::score(int rank, std::uint64_t index) const {
  const double own = normal_quantile(open_fraction(random_bits(spec_.seed, stream_of(rank, kScore), index)));
  if (spec_.rho == 0) return own;
  return common_ * normal_quantile(open_fraction(random_bits(spec_.seed, kCommonScore, index))) + own_ * own;
}

double Generator::fraction(int rank, std::uint64_t index) const {
  if (spec_.rho == 0) return open_fraction(random_bits(spec_.seed, stream_of(rank, kScore), index));
  return normal_fraction(score(rank, index));
}

double Generator::smooth(int rank, std::uint64_t index) const {
  const auto sines = [&](std::uint64_t stream) {
    double sum = 0;
    for (int k = 0; k < kSines; ++k) {
      const double phase = open_fraction(random_bits(spec_.seed, stream, static_cast<std::uint64_t>(k)));
      // The wavelengths are 4096, 2048, ... 32 elements. The index is reduced first, so that all indices give
      // equally exact values.
      const std::uint64_t wavelength = 4096U >> k;
      const double turn = static_cast<double>(index % wavelength) / static_cast<double>(wavelength) + phase;
      sum += std::sin(2.0 * std::numbers::pi * turn);
    }
    return sum / std::sqrt(kSines / 2.0);
  };
  double wave = own_ * sines(stream_of(rank, kSinePhase));
  if (spec_.rho != 0) wave += common_ * sines(kCommonSines);
  return kSigma * (wave + kNoise * score(rank, index));
}

template <class T>
T Generator::value(int rank, std::uint64_t index) const {
  switch (spec_.distribution) {
    case Distribution::normal: return static_cast<T>(kSigma * score(rank, index));
    case Distribution::laplace: {
      const double u = fraction(rank, index);
      return static_cast<T>(kSigma * (u < 0.5 ? std::log(2.0 * u) : -std::log(2.0 * (1.0 - u))));
    }
    case Distribution::gradient: {
      const double z = normal_quantile(open_fraction(random_bits(spec_.seed, kBlockScale, index / kBlock)));
      return static_cast<T>(kSigma * std::exp(1.5 * z) * score(rank, index));
    }
    case Distribution::sparse: {
      double mask = open_fraction(random_bits(spec_.seed, stream_of(rank, kMask), index));
      if (spec_.rho != 0)
        mask = normal_fraction(
            own_ * normal_quantile(mask) +
            common_ * normal_quantile(open_fraction(random_bits(spec_.seed, kCommonMask, index))));
      return mask < spec_.density ? static_cast<T>(kSigma * score(rank, index)) : T{};
    }
    case Distribution::smooth: return static_cast<T>(smooth(rank, index));
    case Distribution::uniform: return static_cast<T>(spec_.bound * (2.0 * fraction(rank, index) - 1.0));
    case Distribution::bits: return finite_from<T>(random_bits(spec_.seed, stream_of(rank, kBits), index));
    case Distribution::zeros: return T{};
    case Distribution::constant: return static_cast<T>(kSigma);
    case Distribution::ramp:
      return static_cast<T>(kSigma * static_cast<double>(index % kBlock + std::uint64_t(rank)));
    case Distribution::file: return static_cast<T>(recording_->value(rank, index));
  }
  return T{};
}

template <class T>
void Generator::fill(std::span<T> x, int rank, std::uint64_t first) const {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = value<T>(rank, first + i);
}

template <class T>
DataSummary summary_of(std::span<const T> x) {
  DataSummary f;
  if (x.empty()) return f;
  std::array<std::size_t, 256> histogram{};
  std::size_t zeros = 0;
  bool seen = false;
  for (const T& v : x) {
    std::array<unsigned char, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &v, sizeof v);
    for (const unsigned char b : bytes) ++histogram[b];
    const auto value = static_cast<double>(v);
    if (value == 0) ++zeros;
    if (value == 0 || !std::isfinite(value)) continue;
    const int exponent = std::ilogb(value);
    f.exp_min = seen ? std::min(f.exp_min, exponent) : exponent;
    f.exp_max = seen ? std::max(f.exp_max, exponent) : exponent;
    seen = true;
  }
  const auto total = static_cast<double>(x.size_bytes());
  for (const std::size_t n : histogram)
    if (n > 0) f.entropy_bits -= static_cast<double>(n) / total * std::log2(static_cast<double>(n) / total);
  f.zero_frac = static_cast<double>(zeros) / static_cast<double>(x.size());
  return f;
}

#define MQ_INSTANTIATE(T)                                                   \
  template T Generator::value<T>(int, std::uint64_t) const;                 \
  template void Generator::fill<T>(std::span<T>, int, std::uint64_t) const; \
  template DataSummary summary_of<T>(std::span<const T>);
MQ_INSTANTIATE(float)
MQ_INSTANTIATE(double)
MQ_INSTANTIATE(Float16)
MQ_INSTANTIATE(Bfloat16)
#undef MQ_INSTANTIATE

}  // namespace mq::bench
