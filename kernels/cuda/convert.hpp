// The arguments of the kernels that convert half types (convert.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mq::kernels::dense {

struct WidenElements {
  const std::byte* half;
  std::byte* out;
  std::uint64_t n;
};
struct NarrowElements {
  const std::byte* v;
  std::byte *half, *residual;  // residual: may be null
  std::uint64_t n;
  float divisor;
};

}  // namespace mq::kernels::dense
