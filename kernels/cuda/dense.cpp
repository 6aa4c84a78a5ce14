// The copy of payloads to a device, and the division of sums there (dense.cuh).
#include "kernels/cuda/dense.hpp"

#include <algorithm>

namespace mq::kernels {

void device_bring(void* to, const void* from, std::size_t bytes, std::size_t most,
                  const Launcher& launch) noexcept {
  constexpr std::size_t kOfBlock = std::size_t{4} * 16 * dense::kThreads;
  launch(names::bring_bytes, std::clamp<std::size_t>(most / kOfBlock, 1, 16), dense::kThreads, 0,
         dense::Bring{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes});
}

void device_divide(void* x, std::size_t n, Element element, int divisor, const DeviceShape& shape,
                   const Launcher& launch) noexcept {
  if (n == 0) return;
  launch(element == Element::f64 ? names::divide_f64 : names::divide_f32,
         dense::grid_of((n + dense::kTile - 1) / dense::kTile, shape), dense::kThreads, 0,
         dense::Divide{static_cast<std::byte*>(x), n, static_cast<double>(divisor)});
}

}  // namespace mq::kernels
