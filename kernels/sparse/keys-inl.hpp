// Magnitudes as integers. The *key* of a float is its bits without the sign; keys ascend with the magnitude.
// Host and device rows share this file. It is included once per instruction set, and once for the device.
#pragma once

template <class T>
using Key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
inline constexpr Key<T> kSignBit = Key<T>{1} << (8 * sizeof(T) - 1);
template <class T>
inline constexpr T kMaxMagnitude = std::numeric_limits<T>::max();
template <class T>
inline constexpr Key<T> kMaxKey = __builtin_bit_cast(Key<T>, kMaxMagnitude<T>);
template <class T>
inline constexpr T kNanMark = std::numeric_limits<T>::quiet_NaN();
template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr int kMantissaBits = std::numeric_limits<T>::digits - 1;  // stored bits

template <class T>
MQ_HD MQ_INLINE Key<T> key_of(T magnitude) {
  return __builtin_bit_cast(Key<T>, magnitude);
}
template <class T>
MQ_HD MQ_INLINE T magnitude_of(Key<T> key) {
  return __builtin_bit_cast(T, key);
}

// The value that represents the non-finite elements of a block: +Inf or -Inf if they all are, else NaN.
template <class T>
MQ_HD MQ_INLINE T mark_of(bool all_above, bool all_below) {
  return all_above ? kInfinity<T> : all_below ? -kInfinity<T> : kNanMark<T>;
}
