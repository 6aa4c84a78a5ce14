// Element arithmetic with the same results as the host's rows. The only difference between processors is
// which NaN results: a GPU returns one fixed NaN, x86 keeps the payload of the first operand. The sum
// v = x + residual goes to the wire with its payload, so this file selects the NaN explicitly. Both
// processors round to nearest and never flush subnormals.
#pragma once

#include "kernels/cuda/simt.cuh"

namespace mq::simt {

// Number of elements that one thread moves at once, if the address allows it: 16 bytes. The elements of a
// warp then lie side by side.
template <class T>
inline constexpr std::uint32_t kPack = sizeof(T) == 8 ? 2 : 4;
template <class T, std::uint32_t kElements = kPack<T>>
struct alignas(sizeof(T) * kElements < 16 ? sizeof(T) * kElements : 16) Pack {
  T of[kElements];
};
template <class T, std::uint32_t kElements = kPack<T>>
MQ_DEVICE Pack<T, kElements> load_pack(const std::byte* p) {
  return *reinterpret_cast<const Pack<T, kElements>*>(p);
}
template <class T, std::uint32_t kElements>
MQ_DEVICE void store_pack(std::byte* p, const Pack<T, kElements>& v) {
  *reinterpret_cast<Pack<T, kElements>*>(p) = v;
}
template <class T, std::uint32_t kElements = kPack<T>>
MQ_DEVICE bool packs(const void* p) {
  return aligned(p, alignof(Pack<T, kElements>));
}

template <class T>
struct BitsOf;
template <>
struct BitsOf<float> {
  using Word = std::uint32_t;
  static constexpr Word kQuiet = 0x400000u, kNan = 0x7fc00000u, kInf = 0x7f800000u, kSign = 0x80000000u;
};
template <>
struct BitsOf<double> {
  using Word = std::uint64_t;
  static constexpr Word kQuiet = 0x8000000000000u, kNan = 0x7ff8000000000000u, kInf = 0x7ff0000000000000u,
                        kSign = 0x8000000000000000u;
};

template <class T>
MQ_DEVICE constexpr T nan_value() {
  return bits_as<T>(BitsOf<T>::kNan);
}
template <class T>
MQ_DEVICE constexpr T infinite_value() {
  return bits_as<T>(BitsOf<T>::kInf);
}
template <class T>
MQ_DEVICE T quiet(T nan) {
  return bits_as<T>(bits_as<typename BitsOf<T>::Word>(nan) | BitsOf<T>::kQuiet);
}

// a + b. A NaN is the one of x86: the first NaN operand, or the negative default for Inf - Inf.
template <class T>
MQ_DEVICE T sum_of(T a, T b) {
  const T sum = a + b;
  if (sum == sum) return sum;
  // Not written as -NaN, because PTX leaves the result open.
  constexpr T kDefault = bits_as<T>(BitsOf<T>::kNan | BitsOf<T>::kSign);
  return a != a ? quiet(a) : b != b ? quiet(b) : kDefault;
}
template <class T, std::uint32_t kElements>
MQ_DEVICE Pack<T, kElements> sum_of(const Pack<T, kElements>& a, const Pack<T, kElements>& b) {
  Pack<T, kElements> sum;
  bool is_nan = false;
  MQ_UNROLL(4)
  for (std::uint32_t j = 0; j < kElements; ++j) {
    sum.of[j] = a.of[j] + b.of[j];
    is_nan |= sum.of[j] != sum.of[j];
  }
  if (is_nan) {  // rare: one branch for all of them
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kElements; ++j) sum.of[j] = sum_of(a.of[j], b.of[j]);
  }
  return sum;
}
// base + decoded, as in all rows: every NaN becomes the same.
template <class T>
MQ_DEVICE T joined_sum(T base, T decoded) {
  const T sum = base + decoded;
  return sum == sum ? sum : nan_value<T>();
}
// a / b, for b that is finite and not 0. A NaN is the one of x86.
template <class T>
MQ_DEVICE T quotient_of(T a, T b) {
  const T quotient = a / b;
  return quotient == quotient ? quotient : quiet(a);
}
// residual + error; where the sum is not finite, the residual is unchanged.
template <class T>
MQ_DEVICE T deposited(T residual, T error) {
  const T sum = residual + error;
  return is_finite(sum) ? sum : residual;
}

MQ_DEVICE float as_float(float v) { return v; }
MQ_DEVICE float as_float(double v) {
  if (v == v) return static_cast<float>(v);
  const auto bits = bits_as<std::uint64_t>(v);
  return bits_as<float>((static_cast<std::uint32_t>(bits >> 32) & 0x80000000u) | 0x7fc00000u |
                        (static_cast<std::uint32_t>(bits >> 29) & 0x3fffffu));
}
template <class T>
MQ_DEVICE T from_float(float v) {
  if constexpr (sizeof(T) == 4) {
    return v;
  } else {
    if (v == v) return static_cast<T>(v);
    const auto bits = bits_as<std::uint32_t>(v);
    return bits_as<T>((std::uint64_t{bits & 0x80000000u} << 32) | 0x7ff8000000000000u |
                      (std::uint64_t{bits & 0x3fffffu} << 29));
  }
}

// The half types, converted from and to float.
struct Bf16Code {
  static constexpr bool kOverflows = true;  // as on the host
  static MQ_DEVICE std::uint16_t from(float v) { return kernels::bf16_from_bits(bits_as<std::uint32_t>(v)); }
  static MQ_DEVICE float to(std::uint16_t h) { return bits_as<float>(kernels::bits_from_bf16(h)); }
};
struct F16Code {
  static constexpr bool kOverflows = true;  // as on the host
  static MQ_DEVICE std::uint16_t from(float v) { return kernels::f16_from_bits(bits_as<std::uint32_t>(v)); }
  static MQ_DEVICE float to(std::uint16_t h) { return bits_as<float>(kernels::bits_from_f16(h)); }
};

// Accesses an array at any address, element by element. kWhole: the address is a multiple of sizeof(T).
template <class T, bool kWhole>
MQ_DEVICE T element(const std::byte* array, std::size_t i) {
  if constexpr (kWhole)
    return reinterpret_cast<const T*>(array)[i];
  else
    return load<T>(array + i * sizeof(T));
}
template <class T, bool kWhole>
MQ_DEVICE void set_element(std::byte* array, std::size_t i, T v) {
  if constexpr (kWhole)
    reinterpret_cast<T*>(array)[i] = v;
  else
    store(array + i * sizeof(T), v);
}
// Copies bytes from shared memory to any address, in whole words. `from` is 4-byte aligned, with 4 readable
// bytes after the end. This thread is number `who` of `of` threads that copy, at least 4. No barrier.
MQ_DEVICE void copy_bytes(std::byte* to, const std::byte* from, std::uint32_t bytes, std::uint32_t who,
                          std::uint32_t of) {
  const auto phase = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to) % 4);
  const std::uint32_t head = smaller(bytes, (4 - phase) % 4), whole = (bytes - head) / 4;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(from);
  auto* const to_words = reinterpret_cast<std::uint32_t*>(to + head);
  if (head == 0) {
    for (std::uint32_t j = who; j < whole; j += of) to_words[j] = words[j];
  } else {
    for (std::uint32_t j = who; j < whole; j += of)
      to_words[j] = static_cast<std::uint32_t>((words[j] | std::uint64_t{words[j + 1]} << 32) >> (8 * head));
  }
  const std::uint32_t rest = bytes - head - 4 * whole;
  if (who < head) to[who] = from[who];
  if (who < rest) to[head + 4 * whole + who] = from[head + 4 * whole + who];
}

// Copies bytes from any address to shared memory, in whole words. `to` is 4-byte aligned, with 3 writable
// bytes after the end. Only bytes that are copied are read: 512 of them at the same time. Called by a whole
// warp.
MQ_DEVICE void fetch_bytes(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  const auto phase = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(from) % 4);
  in_batches<4>(
      4 * lane(), bytes, 128,
      [&](std::uint32_t at) {
        if (phase == 0 && at + 4 <= bytes) return *reinterpret_cast<const std::uint32_t*>(from + at);
        if (at >= phase && at - phase + 8 <= bytes) {
          const auto* const words = reinterpret_cast<const std::uint32_t*>(from + at - phase);
          return static_cast<std::uint32_t>((words[0] | std::uint64_t{words[1]} << 32) >> (8 * phase));
        }
        std::uint32_t word = 0;
        for (std::uint32_t i = 0; i < 4 && at + i < bytes; ++i)
          word |= static_cast<std::uint32_t>(from[at + i]) << (8 * i);
        return word;
      },
      [&](std::uint32_t at, std::uint32_t word) { *reinterpret_cast<std::uint32_t*>(to + at) = word; });
}

// Batch size for elements that are moved one by one: the addresses of x and residual are no multiples of 16,
// and they may differ in that, so that no elements at the beginning can be left out to make them so. Smaller
// for arbitrary addresses, because each element then takes many loads.
template <class T, bool kWhole>
inline constexpr std::uint32_t kElementBatch = kWhole ? 32 / sizeof(T) : 1;

}  // namespace mq::simt
