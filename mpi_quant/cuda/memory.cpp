// The table's functions for memory: allocation, copies, zeroing. streams.cpp orders them.
#include "mpi_quant/cuda/device.hpp"

namespace mq::cuda {

Status allocate(Device* device, std::size_t bytes, void*& p) noexcept {
  CuAddress address = 0;
  const ContextScope scope(*device);
  MQ_TRY(scope.status());
  MQ_TRY(call_driver(*device, driver().cuMemAlloc_v2, &address, bytes > 0 ? bytes : 1));
  p = reinterpret_cast<void*>(address);
  return {};
}

void free(Device* device, void* p) noexcept {
  if (p == nullptr) return;
  const ContextScope scope(*device);
  if (scope.ok()) (void)driver().cuMemFree_v2(reinterpret_cast<CuAddress>(p));
}

Status allocate_pinned(Device* device, std::size_t bytes, void*& p) noexcept {
  const ContextScope scope(*device);
  MQ_TRY(scope.status());
  return call_driver(*device, driver().cuMemHostAlloc, &p, bytes > 0 ? bytes : 1,
                     kHostPortable | kHostDeviceMapped);
}

void free_pinned(Device* device, void* p) noexcept {
  if (p == nullptr) return;
  const ContextScope scope(*device);
  if (scope.ok()) (void)driver().cuMemFreeHost(p);
}

Status copy(DeviceStream* stream, void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  const ContextScope scope(*stream->device);
  MQ_TRY(scope.status());
  return call_driver(*stream->device, driver().cuMemcpyAsync, reinterpret_cast<CuAddress>(to),
                     reinterpret_cast<CuAddress>(from), bytes, stream->stream);
}

Status zero(DeviceStream* stream, void* p, std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  const ContextScope scope(*stream->device);
  MQ_TRY(scope.status());
  const auto nothing = static_cast<unsigned char>(0);
  return call_driver(*stream->device, driver().cuMemsetD8Async, reinterpret_cast<CuAddress>(p), nothing,
                     bytes, stream->stream);
}

}  // namespace mq::cuda
