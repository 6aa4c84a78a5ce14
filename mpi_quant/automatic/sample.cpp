#include "mpi_quant/automatic/sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "mpi_quant/base/hash.hpp"

namespace mq {
namespace {

constexpr std::size_t kRun = 256, kMostRuns = 64;
constexpr double kShareOfCall = 0.01, kSecondsOfElement = 4e-9;  // of a call; to encode, decode and compare

// The length of difference(x, y) over that of x, of n elements; the greatest number if that is none. Scaled,
// so that no square is lost.
template <class T, class Of>
float ratio_of_norms(std::size_t n, const std::byte* x, const std::byte* y, const Of& difference) {
  double greatest = 0;
  for (std::size_t i = 0; i < 2 * n; ++i) {
    T value;
    std::memcpy(&value, (i < n ? x : y) + i % n * sizeof(T), sizeof(T));
    greatest = std::max(greatest, std::abs(static_cast<double>(value)));
  }
  constexpr float kGreatest = std::numeric_limits<float>::max();
  if (!(greatest <= std::numeric_limits<double>::max())) return kGreatest;
  const double scale = greatest > 0 ? 1 / greatest : 1;
  double above = 0, below = 0;
  for (std::size_t i = 0; i < n; ++i) {
    T a, b;
    std::memcpy(&a, x + i * sizeof(T), sizeof(T));
    std::memcpy(&b, y + i * sizeof(T), sizeof(T));
    const double v = static_cast<double>(a) * scale, w = static_cast<double>(b) * scale, d = difference(v, w);
    above += d * d;
    below += v * v;
  }
  if (above == 0) return 0;
  const double ratio = std::sqrt(above / below);
  return ratio < static_cast<double>(kGreatest) ? static_cast<float>(ratio)
                                                : kGreatest;  // also if it is a NaN
}

template <class Of>
float ratio(std::size_t n, const std::byte* x, const std::byte* y, kernels::Element element,
            const Of& difference) {
  return element == kernels::Element::f64 ? ratio_of_norms<double>(n, x, y, difference)
                                          : ratio_of_norms<float>(n, x, y, difference);
}

}  // namespace

Sampled unknown_sample() { return {std::numeric_limits<float>::max(), 0}; }

bool Sample::take(const std::byte* vector, std::size_t count, kernels::Element element, double call_s,
                  std::uint64_t number) {
  element_ = element;
  count_ = count;
  number_ = number;
  length_ = std::min(kRun, count);
  const double fitting = kShareOfCall * call_s / kSecondsOfElement / kRun;
  const auto most = static_cast<std::size_t>(std::clamp(fitting, 1.0, static_cast<double>(kMostRuns)));
  runs_ = std::clamp<std::size_t>(count / length_, 1, most);
  const std::size_t room = runs_ * length_ * kernels::element_bytes(element);
  if (!elements_.reserve(room) || !decoded_.reserve(room)) return false;
  gather(vector, elements_.data());
  return true;
}

void Sample::gather(const std::byte* from, std::byte* to) const {
  const std::size_t bytes = length_ * kernels::element_bytes(element_), places = count_ / length_;
  for (std::size_t r = 0; r < runs_; ++r) {
    const std::size_t place = (r * places + mixed(number_ * kMostRuns + r) % places) / runs_;
    std::memcpy(to + r * bytes, from + place * bytes, bytes);
  }
}

Sampled Sample::try_on(const AutoCandidate& candidate, kernels::Isa isa) {
  const Method& method = candidate.method;
  kernels::EncodeArgs out;
  out.x = elements_.data();
  out.n = runs_ * length_;
  out.params = method.params;
  if (method.codec->measures(method.params) != kernels::Measures::nothing)
    out.params = method.codec->settle(
        method.params, method.codec->measure(elements_.data(), out.n, element_, method.params));
  if (!wire_.reserve(method.codec->wire_bound(out.n, element_, out.params))) return unknown_sample();
  out.wire = wire_.data();
  const kernels::CodecOps& ops = *method.codec->ops(element_, isa);
  const kernels::Encoded encoded = ops.encode(out);
  Sampled sampled{0, static_cast<float>(encoded.bytes) / static_cast<float>(out.n)};
  if (candidate.is_sure) return sampled;
  kernels::DecodeArgs in;
  in.wire = out.wire;
  in.wire_bytes = encoded.bytes;
  in.n = out.n;
  in.params = out.params;
  in.x = decoded_.data();
  if (ops.decode(in) != kernels::Decoded::ok) return unknown_sample();
  sampled.error =
      ratio(out.n, elements_.data(), decoded_.data(), element_, [](double v, double w) { return v - w; });
  return sampled;
}

float Sample::debt(const std::byte* residual) {
  gather(residual, decoded_.data());
  return ratio(runs_ * length_, elements_.data(), decoded_.data(), element_,
               [](double, double w) { return w; });
}

}  // namespace mq
