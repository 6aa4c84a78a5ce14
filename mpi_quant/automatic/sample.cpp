#include "mpi_quant/automatic/sample.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <type_traits>

#include "mpi_quant/base/hash.hpp"
#include "mpi_quant/base/ticks.hpp"

namespace mq {
namespace {

constexpr std::size_t kRun = 256, kMostRuns = 64;
// Elements to encode and decode for a rate: this share of the vector, but so many at least and at most.
constexpr std::size_t kRatedShare = 128, kLeastRated = 1024, kMostRated = std::size_t{1} << 16;
constexpr double kShareOfCall = 0.01, kSecondsOfElement = 4e-9;  // of a call; to encode, decode and compare

// The length of difference(x, y), divided by the length of x, of n elements; the greatest number if the
// quotient is none. Doubles are scaled, so that no square is lost; squares of floats are computed as doubles,
// which hold them.
template <class T, class Of>
float ratio_of_norms(std::size_t n, const std::byte* x, const std::byte* y, const Of& difference) {
  const auto at = [](const std::byte* vector, std::size_t i) {
    T value;
    std::memcpy(&value, vector + i * sizeof(T), sizeof(T));
    return static_cast<double>(value);
  };
  constexpr float kGreatest = std::numeric_limits<float>::max();
  double scale = 1;
  if constexpr (std::is_same_v<T, double>) {
    double greatest = 0;
    for (std::size_t i = 0; i < n; ++i)
      greatest = std::max({greatest, std::abs(at(x, i)), std::abs(at(y, i))});
    if (greatest > 0 && greatest <= std::numeric_limits<double>::max()) scale = 1 / greatest;
  }
  constexpr std::size_t kLanes = 8;  // sums that do not wait for each other
  std::array<double, kLanes> above{}, below{};
  const auto add = [&](std::size_t lane, std::size_t i) {
    const double v = at(x, i) * scale, w = at(y, i) * scale, d = difference(v, w);
    above[lane] += d * d;
    below[lane] += v * v;
  };
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  for (; i < n; ++i) add(0, i);
  const double all_above = std::accumulate(above.begin(), above.end(), 0.0);
  const double all_below = std::accumulate(below.begin(), below.end(), 0.0);
  if (!std::isfinite(all_above) || !std::isfinite(all_below)) return kGreatest;
  if (all_above == 0) return 0;
  const double ratio = std::sqrt(all_above / all_below);
  return ratio < static_cast<double>(kGreatest) ? static_cast<float>(ratio) : kGreatest;
}

template <class Of>
float ratio(std::size_t n, const std::byte* x, const std::byte* y, kernels::Element element,
            const Of& difference) {
  return element == kernels::Element::f64 ? ratio_of_norms<double>(n, x, y, difference)
                                          : ratio_of_norms<float>(n, x, y, difference);
}

// How many times as long as the sum of independent vectors of n normal elements their usual sum is, with a
// probability of 3e-5 at most (4 standard deviations). By Wilson and Hilferty's approximation of chi-squared.
float by_chance(std::size_t n) {
  constexpr double kDeviations = 4, kLeast = 0.1;  // of fewer than five elements nothing can be said
  const double variance = 2 / (9 * static_cast<double>(n));
  const double root = std::max(1 - variance - kDeviations * std::sqrt(variance), kLeast);
  return static_cast<float>(std::pow(root, -1.5));
}

bool is_zero(const std::byte* x, std::size_t n, kernels::Element element) {
  // The length of the vector in lengths of itself is 0 or 1.
  return ratio(n, x, x, element, [](double v, double) { return v; }) == 0;
}

}  // namespace

Sampled unknown_sample() { return {std::numeric_limits<float>::max(), 0}; }

bool Sample::take(std::span<const SampledVector> vectors, kernels::Element element, double call_s,
                  std::uint64_t number, bool of_each) {
  element_ = element;
  number_ = number;
  const double fitting = kShareOfCall * call_s / kSecondsOfElement / kRun;
  const auto runs = static_cast<std::size_t>(std::clamp(fitting, 1.0, static_cast<double>(kMostRuns)));
  std::size_t all = 0, end = 0, run = 0, room = 0, longest = 0;
  for (const SampledVector& vector : vectors) all += vector.n;
  // Where a run is in all vectors, one after the other.
  const auto place_of = [&](std::size_t r) {
    constexpr double kTo = 18446744073709551616.0;  // 2^64
    const double within = static_cast<double>(mixed(number * kMostRuns + r)) / kTo;
    return (static_cast<double>(r) + within) / static_cast<double>(runs) * static_cast<double>(all);
  };
  try {
    parts_.clear();
    for (const SampledVector& vector : vectors) {
      end += vector.n;
      const std::size_t first = run;
      while (run < runs && (end == all || place_of(run) < static_cast<double>(end))) ++run;
      const std::size_t here = std::max<std::size_t>(run - first, of_each ? 1 : 0);
      if (here == 0) continue;
      const std::size_t length = std::min(kRun, vector.n);
      const Part& part =
          parts_.emplace_back(Part{vector, run > first, std::min(here, vector.n / length), length, room});
      room += part.n();
      longest = std::max(longest, part.n());
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  const std::size_t width = kernels::element_bytes(element);
  if (parts_.empty() || !elements_.reserve(room * width) || !decoded_.reserve(longest * width)) return false;
  for (const Part& part : parts_) gather(part, part.of.elements, elements_.data() + part.first * width);
  return true;
}

void Sample::gather(const Part& part, const std::byte* from, std::byte* to) const {
  const std::size_t width = kernels::element_bytes(element_), bytes = part.length * width;
  const std::size_t places = part.of.n / part.length, spare = part.of.n % part.length;
  // So that the elements behind the last place are seen, too, all places move by so many elements.
  const std::size_t shift = mixed(~number_) % (spare + 1);
  for (std::size_t r = 0; r < part.runs; ++r) {
    const std::size_t place = (r * places + mixed(number_ * kMostRuns + r) % places) / part.runs;
    std::memcpy(to + r * bytes, from + place * bytes + shift * width, bytes);
  }
}

const std::byte* Sample::elements_of(const Part& part) const {
  return elements_.data() + part.first * kernels::element_bytes(element_);
}

Sampled Sample::try_on(const AutoCandidate& candidate, kernels::Isa isa, bool on_each) {
  const kernels::CodecOps& ops = *candidate.method.codec->ops(element_, isa);
  Sampled all;
  double bytes = 0, elements = 0;
  for (const Part& part : parts_) {
    if (!on_each && !part.is_drawn) continue;
    const Sampled one = try_part(part, candidate, ops);
    const float error = part.of.is_of_group ? one.error * by_chance(part.of.n) : one.error;
    all.error = std::max(all.error, std::min(error, unknown_sample().error));
    bytes += static_cast<double>(one.wire_bytes) * static_cast<double>(part.of.n);
    elements += static_cast<double>(part.of.n);
  }
  all.wire_bytes = static_cast<float>(bytes / elements);
  return all;
}

Sampled Sample::try_part(const Part& part, const AutoCandidate& candidate, const kernels::CodecOps& ops) {
  const Method& method = candidate.method;
  kernels::EncodeArgs out;
  out.x = elements_of(part);
  out.n = part.n();
  out.params = method.params;
  if (method.codec->measures(method.params) != kernels::Measures::nothing)
    out.params =
        method.codec->settle(method.params, method.codec->measure(out.x, out.n, element_, method.params));
  if (!wire_.reserve(method.codec->wire_bound(out.n, element_, out.params))) return unknown_sample();
  out.wire = wire_.data();
  const kernels::Encoded encoded = ops.encode(out);
  Sampled sampled{0, static_cast<float>(encoded.bytes) / static_cast<float>(out.n)};
  if (candidate.is_sure || part.of.is_raw) return sampled;
  kernels::DecodeArgs in;
  in.wire = out.wire;
  in.wire_bytes = encoded.bytes;
  in.n = out.n;
  in.params = out.params;
  in.x = decoded_.data();
  if (ops.decode(in) != kernels::Decoded::ok) return unknown_sample();
  sampled.error =
      ratio(out.n, elements_of(part), decoded_.data(), element_, [](double v, double w) { return v - w; });
  return sampled;
}

CodecRates Sample::rates(const std::byte* vector, std::size_t count, kernels::Element element,
                         kernels::Isa isa) {
  const kernels::Codec& codec = rated_codec();
  const kernels::CodecOps& ops = *codec.ops(element, isa);
  kernels::EncodeArgs out;
  kernels::DecodeArgs in;
  out.n = in.n = std::min(count, std::clamp(count / kRatedShare, kLeastRated, kMostRated));
  const std::size_t width = kernels::element_bytes(element);
  out.params = in.params = kernels::preset_params(codec);
  if (!wire_.reserve(codec.wire_bound(out.n, element, out.params)) || !decoded_.reserve(out.n * width))
    return {};
  in.wire = out.wire = wire_.data();
  in.x = decoded_.data();
  // The first time also fetches code and memory.
  double encode_s = 0, decode_s = 0;
  for (const std::size_t at : {(count - out.n) / 2, (count - out.n) / 4}) {
    out.x = vector + at * width;
    const double begin_s = now_s();
    in.wire_bytes = ops.encode(out).bytes;
    const double between_s = now_s();
    if (ops.decode(in) != kernels::Decoded::ok) return {};
    encode_s = between_s - begin_s;
    decode_s = now_s() - between_s;
  }
  if (encode_s <= 0 || decode_s <= 0) return {};
  const auto n = static_cast<double>(out.n);
  return {n / encode_s, n / decode_s};
}

float Sample::debt() {
  float greatest = 0;
  for (const Part& part : parts_) {
    if (part.of.waits == nullptr) continue;
    const auto of_waiting = [](double, double w) { return w; };
    gather(part, part.of.waits, decoded_.data());
    const float owed = ratio(part.n(), elements_of(part), decoded_.data(), element_, of_waiting);
    if (owed <= greatest) continue;
    const bool owes_nothing = part.of.is_of_group && is_zero(elements_of(part), part.n(), element_) &&
                              is_zero(part.of.elements, part.of.n, element_);
    if (!owes_nothing) greatest = owed;
  }
  return greatest;
}

}  // namespace mq
