// The bit patterns of an element type, for host and GPU rows.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/hd.hpp"

namespace mq::kernels {

template <class T>
struct FloatBits {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  static constexpr Word kBias = std::numeric_limits<T>::max_exponent - 1;

  // 2^exponent, a normal number.
  MQ_HD static constexpr T power(int exponent) {
    return __builtin_bit_cast(T, (kBias + static_cast<Word>(static_cast<std::int64_t>(exponent)))
                                     << kMantissa);
  }
  // 2^(field - bias), where `field` is an exponent field; also where that is subnormal.
  MQ_HD static constexpr T power_of_field(int field) {
    return __builtin_bit_cast(T,
                              field > 0 ? static_cast<Word>(field) << kMantissa : Word{1} << (kMantissa - 1));
  }
};

}  // namespace mq::kernels
