// What this processor and operating system support. Separate because it is the only code that asks the
// processor.

#include "kernels/codec.hpp"

namespace mq::kernels {

Isa best_isa() noexcept {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Isa::avx512;
  return __builtin_cpu_supports("avx2") ? Isa::avx2 : Isa::scalar;
}

}  // namespace mq::kernels
