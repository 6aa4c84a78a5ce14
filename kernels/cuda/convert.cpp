// The device version of kernels/convert.hpp.

#include "kernels/cuda/convert.hpp"

#include "kernels/cuda/dense.hpp"

namespace mq::kernels {
namespace {

using namespace dense;

// 16 elements per thread, if there are enough.
std::size_t convert_grid(std::size_t n, const DeviceShape& shape) {
  return grid_of((n + kTile - 1) / kTile, shape);
}

template <bool kBf16>
void widen(const void* half, void* out, std::size_t n, const DeviceShape& shape,
           const Launcher& launch) noexcept {
  if (n > 0)
    launch(kBf16 ? names::widen_bf16 : names::widen_f16, convert_grid(n, shape), kThreads, 0,
           WidenElements{static_cast<const std::byte*>(half), static_cast<std::byte*>(out), n});
}
template <bool kBf16>
void narrow(const void* v, void* half, void* residual, std::size_t n, int divisor, const DeviceShape& shape,
            const Launcher& launch) noexcept {
  if (n > 0)
    launch(kBf16 ? names::narrow_bf16 : names::narrow_f16, convert_grid(n, shape), kThreads, 0,
           NarrowElements{static_cast<const std::byte*>(v), static_cast<std::byte*>(half),
                          static_cast<std::byte*>(residual), n, static_cast<float>(divisor)});
}

constexpr DeviceConvertOps kF16{&widen<false>, &narrow<false>}, kBf16{&widen<true>, &narrow<true>};

}  // namespace

const DeviceConvertOps* device_convert(Element half) noexcept {
  return half == Element::f16 ? &kF16 : half == Element::bf16 ? &kBf16 : nullptr;
}

}  // namespace mq::kernels
