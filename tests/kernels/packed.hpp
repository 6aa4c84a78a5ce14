// Reads packed codes in scalar code of the tests' own, as kernels/host/packed-inl.hpp describes them.
#pragma once

#include <cstddef>

namespace mq::test {

// Code i of a group of 32 codes of `bits` bits.
inline int packed_code(const std::byte* group, int bits, std::size_t i) {
  if (bits == 8) return std::to_integer<int>(group[i]);
  int code = 0, shift = 0;
  for (const int k : {4, 2, 1}) {
    if ((bits & k) == 0) continue;
    const std::size_t stride = static_cast<std::size_t>(4 * k);
    const std::size_t byte = k == 1 ? i / 8 : i % stride,
                      low = k == 1 ? i % 8 : i / stride * static_cast<std::size_t>(k);
    code |= (std::to_integer<int>(group[byte]) >> low & ((1 << k) - 1)) << shift;
    group += stride;
    shift += k;
  }
  return code;
}

}  // namespace mq::test
