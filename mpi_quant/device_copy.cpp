#include "mpi_quant/device_copy.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "mpi_quant/base/env.hpp"

namespace mq {
namespace {

// A stream of each device, made when it is first needed. Never destroyed: a program may call while statics
// are torn down.
struct Streams {
  std::mutex mutex;
  std::map<Device*, DeviceStream*> by_device;
};
Streams& streams() {
  static Streams& s = *new Streams;
  return s;
}

// f(stream), until the stream has come to its end. Once more with a new stream if that fails: the program may
// have reset the device since the last time.
template <class F>
Status in_stream(const DeviceApi& api, Device* device, const F& f) noexcept {
  try {
    const std::scoped_lock lock(streams().mutex);
    DeviceStream*& stream = streams().by_device[device];
    Status status;
    for (int attempt = 0; attempt < 2; ++attempt) {
      const bool is_new = stream == nullptr;
      if (is_new) MQ_TRY(api.make_stream(device, stream));
      status = api.follow(stream, env().ok() ? env()->cuda_sync : DeviceSync::legacy);
      if (status.ok()) status = f(stream);
      Status end = api.synchronize(stream);
      if (status.ok()) status = std::move(end);
      if (status.ok() || is_new) break;
      api.free_stream(stream);
      stream = nullptr;
    }
    return status;
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, {}};
  }
}

}  // namespace

Status copy_now(const DeviceApi& api, Device* device, void* to, const void* from,
                std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  return in_stream(api, device, [&](DeviceStream* stream) { return api.copy(stream, to, from, bytes); });
}

Status copy_now(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  const DeviceApi* const api = device_api();
  Where target, source;
  if (api != nullptr) {
    MQ_TRY(api->where(to, target));
    MQ_TRY(api->where(from, source));
  }
  Device* const device = target.memory == Memory::device ? target.device : source.device;
  if (device != nullptr) return copy_now(*api, device, to, from, bytes);
  std::memmove(to, from, bytes);
  return {};
}

Result<bool> is_on_device(const void* p) noexcept {
  const Result<Where> found = where(p);
  if (!found.ok()) return found.status();
  return found->memory == Memory::device;
}

bool is_captured(const void* p) noexcept {
  const Result<Where> found = where(p);
  return found.ok() && found->memory == Memory::device && device_api()->capturing(found->device, nullptr);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) api_->free(device_, data_);
}

Status DeviceBuffer::allocate_zeroed(const DeviceApi& api, Device* device, std::size_t bytes) noexcept {
  void* fresh = nullptr;
  MQ_TRY(api.allocate(device, bytes, fresh));
  Status zeroed =
      in_stream(api, device, [&](DeviceStream* stream) { return api.zero(stream, fresh, bytes); });
  if (!zeroed.ok()) {
    api.free(device, fresh);
    return zeroed;
  }
  api_ = &api;
  device_ = device;
  data_ = static_cast<std::byte*>(fresh);
  bytes_ = bytes;
  return {};
}

}  // namespace mq
