// Vectors of a call, as the advisor gets them, and what a codec makes of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string_view>
#include <vector>

#include "mpi_quant/advisor/advisor.hpp"

namespace mq::test {

template <class T>
const std::byte* bytes_of(const std::vector<T>& x) {
  return reinterpret_cast<const std::byte*>(x.data());
}
template <class T>
constexpr kernels::Element element_of_type = sizeof(T) == 4 ? kernels::Element::f32 : kernels::Element::f64;

// Of an allreduce.
template <class T>
Vectors vectors_of(const std::vector<T>& input, const std::vector<T>& result) {
  return {bytes_of(input), {0, input.size()}, bytes_of(result), {0, result.size()}, element_of_type<T>};
}

inline std::size_t candidate(std::string_view text) {
  for (std::size_t c = 0; c < candidates().size(); ++c)
    if (candidates()[c].text == text) return c;
  ADD_FAILURE() << "no candidate " << text;
  return 0;
}

// D(C(x)), block by block as in a call.
template <class T>
std::vector<T> coded(const std::vector<T>& x, const Method& method) {
  const kernels::CodecOps& ops = *method.codec->ops(element_of_type<T>, kernels::best_isa());
  std::vector<std::byte> wire(method.codec->wire_bound(x.size(), element_of_type<T>, method.params));
  std::vector<T> y(x.size());
  kernels::EncodeArgs out;
  out.x = x.data();
  out.n = x.size();
  out.params = method.params;
  out.wire = wire.data();
  const kernels::Encoded encoded = ops.encode(out);
  kernels::DecodeArgs in;
  in.wire = wire.data();
  in.wire_bytes = encoded.bytes;
  in.n = x.size();
  in.params = method.params;
  in.x = y.data();
  EXPECT_EQ(ops.decode(in), kernels::Decoded::ok);
  return y;
}

template <class T>
std::vector<T> sum_of(const std::vector<std::vector<T>>& vectors) {
  std::vector<T> sum(vectors[0].size());
  for (const auto& v : vectors)
    for (std::size_t i = 0; i < v.size(); ++i) sum[i] += v[i];
  return sum;
}

template <class T>
double relative_error(const std::vector<T>& exact, const std::vector<T>& y) {
  double error2 = 0, norm2 = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double v = static_cast<double>(exact[i]), e = v - static_cast<double>(y[i]);
    error2 += e * e;
    norm2 += v * v;
  }
  return std::sqrt(error2 / norm2);
}

}  // namespace mq::test
