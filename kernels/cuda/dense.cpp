// The copy of payloads to a device (bring_bytes in dense.cuh).
#include "kernels/cuda/dense.hpp"

#include <algorithm>

namespace mq::kernels {

void device_bring(void* to, const void* from, std::size_t bytes, std::size_t most,
                  const Launcher& launch) noexcept {
  constexpr std::size_t kOfBlock = std::size_t{4} * 16 * dense::kThreads;
  launch("bring_bytes", std::clamp<std::size_t>(most / kOfBlock, 1, 16), dense::kThreads, 0,
         dense::Bring{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes});
}

}  // namespace mq::kernels
