// Converts between the half types and float, in which their sums are accumulated. All instruction sets give
// the same bits.
#pragma once

#include <cstddef>

#include "kernels/codec.hpp"

namespace mq::kernels {

// Arrays may have any alignment and must not overlap.
struct ConvertOps {
  // out[i] = half[i], exactly. A NaN stays a NaN (made quiet).
  void (*widen)(const void* half, void* out, std::size_t n) noexcept;
  // half[i] = v[i], rounded to nearest, ties to even (IEEE 754). If residual (n floats) is not null and
  // half[i] is finite, adds what the rounding lost: residual[i] += v[i] - half[i].
  void (*narrow)(const void* v, void* half, void* residual, std::size_t n) noexcept;
};

// For Element::f16 and Element::bf16; null for the others.
const ConvertOps* convert(Element half, Isa) noexcept;

}  // namespace mq::kernels
