// The table's functions for memory: allocation, copies, zeroing. streams.cpp orders them.
#include "mpi_quant/cuda/device.hpp"

namespace mq::cuda {

Status allocate(Device* device, std::size_t bytes, void*& p) noexcept {
  CuAddress address = 0;
  const Entered entered(*device);
  MQ_TRY(entered.status());
  MQ_TRY(tried(*device, driver().cuMemAlloc_v2, &address, bytes > 0 ? bytes : 1));
  p = reinterpret_cast<void*>(address);
  return {};
}

void free(Device* device, void* p) noexcept {
  if (p == nullptr) return;
  const Entered entered(*device);
  if (entered.ok()) (void)driver().cuMemFree_v2(reinterpret_cast<CuAddress>(p));
}

Status allocate_pinned(Device* device, std::size_t bytes, void*& p) noexcept {
  const Entered entered(*device);
  MQ_TRY(entered.status());
  return tried(*device, driver().cuMemHostAlloc, &p, bytes > 0 ? bytes : 1,
               kHostPortable | kHostDeviceMapped);
}

void free_pinned(Device* device, void* p) noexcept {
  if (p == nullptr) return;
  const Entered entered(*device);
  if (entered.ok()) (void)driver().cuMemFreeHost(p);
}

Status copy(DeviceStream* stream, void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  const Entered entered(*stream->device);
  MQ_TRY(entered.status());
  return tried(*stream->device, driver().cuMemcpyAsync, reinterpret_cast<CuAddress>(to),
               reinterpret_cast<CuAddress>(from), bytes, stream->stream);
}

Status zero(DeviceStream* stream, void* p, std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  const Entered entered(*stream->device);
  MQ_TRY(entered.status());
  const auto nothing = static_cast<unsigned char>(0);
  return tried(*stream->device, driver().cuMemsetD8Async, reinterpret_cast<CuAddress>(p), nothing, bytes,
               stream->stream);
}

}  // namespace mq::cuda
