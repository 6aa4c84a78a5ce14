// The last pass over the result of a call that asks for the mean: its sum divided by the number of ranks.
// Whoever writes the final value of an element divides it. All ranks have the same bits of the sum, so they
// have the same bits of the mean. What is encoded before is the sum, with every plan and memory rule, so a
// residual has the unit of the vectors: a key may serve sums and means in turn.
#pragma once

#include <cstddef>

#include "kernels/convert.hpp"

namespace mq {

// x[i] = x[i] / divisor, rounded to nearest, for n elements of type f32 or f64. Whatever the program has set,
// subnormal numbers stay, and the bits are the same.
void divide(void* x, std::size_t n, kernels::Element element, int divisor) noexcept;

// half[i] = sum[i] / divisor, rounded to float and then to the half type. residual, n floats or null, gets
// what a result of divisor * half[i] lacks of the sum, as ConvertOps::narrow does for a divisor of 1.
void divide_to_half(const kernels::ConvertOps& convert, const void* sum, void* half, void* residual,
                    std::size_t n, int divisor) noexcept;

}  // namespace mq
