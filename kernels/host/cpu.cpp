// What this processor and operating system support. Separate because it is the only code that queries the
// processor.

#include <cpuid.h>

#include "kernels/codec.hpp"

namespace mq::kernels {
namespace {

// Queried directly, because clang 14's __builtin_cpu_supports does not know f16c. F16C uses the AVX
// registers, and the check for AVX2 says whether the operating system saves them.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

Isa best_isa() noexcept {
#ifdef MQ_SCALAR_ONLY
  (void)has_f16c;
  return Isa::scalar;
#else
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return Isa::scalar;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
             ? Isa::avx512
             : Isa::avx2;
#endif
}

}  // namespace mq::kernels
