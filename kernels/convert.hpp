// Between the half types and float, the type their sums are accumulated in. Same bits on every instruction
// set.
#pragma once

#include <cstddef>

#include "kernels/codec.hpp"

namespace mq::kernels {

// Arrays may have any alignment and do not overlap.
struct ConvertOps {
  // out[i] = half[i], exactly; a NaN stays a NaN (made quiet).
  void (*widen)(const void* half, void* out, std::size_t n) noexcept;
  // half[i] = v[i] rounded to nearest, ties to even, as IEEE 754 rounds. With residual (n floats, or null),
  // what the rounding of a value that stays finite lost is added to it: residual[i] += v[i] - half[i].
  void (*narrow)(const void* v, void* half, void* residual, std::size_t n) noexcept;
};

// Of Element::f16 or Element::bf16; null for the others.
const ConvertOps* convert(Element half, Isa) noexcept;

}  // namespace mq::kernels
