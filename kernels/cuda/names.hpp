// The names of all kernels. MQ_KERNEL (simt.cuh) makes kernels of these names only, and launches take nothing
// else: a name that is not here does not compile. Most kernels exist for floats and for doubles: their names
// differ in f32 and f64.
#pragma once

#include <array>

#include "kernels/device.hpp"

namespace mq::kernels {
namespace names {

#define MQ_KERNEL_NAME(kernel) inline constexpr Kernel kernel{#kernel};
#define MQ_NAMES(before, after) MQ_KERNEL_NAME(before##_f32##after) MQ_KERNEL_NAME(before##_f64##after)
// Of MQ_DENSE_KERNELS, MQ_BLOCK_KERNELS, MQ_SPARSE_ENCODES and MQ_SPARSE_DECODES.
#define MQ_NAMES_DENSE(row) MQ_NAMES(row, _encode) MQ_NAMES(row, _decode)
#define MQ_NAMES_BLOCK(row) \
  MQ_NAMES_DENSE(row)       \
  MQ_NAMES(row, _encode_carry) MQ_NAMES(row, _encode_deposit) MQ_NAMES(row, _decode_add)
#define MQ_NAMES_ENCODE(codec) MQ_NAMES(codec##_encode, _far) MQ_NAMES(codec##_encode, _near)
#define MQ_NAMES_DECODE(family) \
  MQ_NAMES(family##_survey, )   \
  MQ_NAMES(family##_walk, ) MQ_NAMES(family##_list, ) MQ_NAMES(family##_decode, )

// clang-format off
MQ_KERNEL_NAME(encode_nothing) MQ_KERNEL_NAME(decode_refuse) MQ_KERNEL_NAME(bring_bytes) MQ_NAMES(divide, )
MQ_KERNEL_NAME(widen_f16) MQ_KERNEL_NAME(widen_bf16) MQ_KERNEL_NAME(narrow_f16) MQ_KERNEL_NAME(narrow_bf16)
MQ_NAMES_DENSE(raw) MQ_NAMES_DENSE(bf16) MQ_NAMES_DENSE(f16)
MQ_NAMES_DENSE(onebit) MQ_NAMES(onebit, _measure) MQ_NAMES(onebit, _join) MQ_NAMES(onebit, _quantize)
MQ_NAMES_BLOCK(dithered_bf16) MQ_NAMES_BLOCK(scaled_f16) MQ_NAMES_BLOCK(integers) MQ_NAMES_BLOCK(trits)
MQ_NAMES_BLOCK(microscaled) MQ_NAMES_BLOCK(nvfp4) MQ_NAMES_BLOCK(natural) MQ_NAMES_BLOCK(range_float)
MQ_KERNEL_NAME(chain_begin)
MQ_NAMES_DENSE(lattice) MQ_NAMES(lattice, _walk) MQ_KERNEL_NAME(greatest_begin) MQ_NAMES(greatest, )
MQ_NAMES_ENCODE(zerorun) MQ_NAMES_DECODE(zeros)
MQ_NAMES_ENCODE(topk) MQ_NAMES_DECODE(valued)
MQ_NAMES_ENCODE(threshold) MQ_NAMES_ENCODE(adaptive) MQ_NAMES_ENCODE(adaptive_rare) MQ_NAMES_DECODE(ternary)
MQ_KERNEL_NAME(threshold_begin) MQ_NAMES(threshold_count, ) MQ_NAMES(threshold_take, )
MQ_NAMES(memory_before, ) MQ_NAMES(memory_after, ) MQ_NAMES(memory_deliver, ) MQ_NAMES(memory_skip, )
MQ_KERNEL_NAME(memory_squares) MQ_KERNEL_NAME(memory_distances) MQ_KERNEL_NAME(memory_join) MQ_KERNEL_NAME(memory_nothing)
MQ_KERNEL_NAME(bitmap_clear) MQ_KERNEL_NAME(bitmap_make) MQ_KERNEL_NAME(bitmap_count_begin) MQ_KERNEL_NAME(bitmap_count)
MQ_NAMES(bitmap_list, ) MQ_NAMES(bitmap_fold, )
// clang-format on

}  // namespace names

using NamesByType = std::array<Kernel, 2>;
// The kernels BEFORE_f32AFTER and BEFORE_f64AFTER.
#define MQ_NAMES_BY_TYPE(before, after)                                              \
  mq::kernels::NamesByType {                                                         \
    mq::kernels::names::before##_f32##after, mq::kernels::names::before##_f64##after \
  }

template <class T>
constexpr Kernel name_for(const NamesByType& names) {
  return names[sizeof(T) == 8 ? 1 : 0];
}

}  // namespace mq::kernels
