#include "mpi_quant/base/device_copy.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/immortal.hpp"

namespace mq {
namespace {

// One stream for each device, made when it is first needed. Never destroyed, because a program may make calls
// while its statics are destroyed.
struct Streams {
  struct Ours {
    DeviceStream* stream = nullptr;
    std::byte* pinned = nullptr;  // for gather_now
    std::size_t pinned_bytes = 0;
  };
  std::mutex mutex;
  std::map<Device*, Ours> by_device;
};
Streams& streams() {
  static Immortal<Streams> s;
  return *s;
}

// Runs f(ours) and waits for the stream. If that fails it tries once more with a new stream, because the
// program may have reset the device.
template <class F>
Status in_stream(const DeviceApi& api, Device* device, const F& f) noexcept {
  try {
    const std::scoped_lock lock(streams().mutex);
    Streams::Ours& ours = streams().by_device[device];
    Status status;
    for (int attempt = 0; attempt < 2; ++attempt) {
      const bool is_new = ours.stream == nullptr;
      if (is_new) MQ_TRY(api.make_stream(device, ours.stream));
      status = api.follow(ours.stream, env().ok() ? env()->cuda_sync : DeviceSync::legacy);
      if (status.ok()) status = f(ours);
      Status end = api.synchronize(ours.stream);
      if (status.ok()) status = std::move(end);
      if (status.ok() || is_new) break;
      api.free_stream(ours.stream);
      api.free_pinned(device, ours.pinned);
      ours = {};
    }
    return status;
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, "out of memory"};
  }
}

}  // namespace

Status copy_now(const DeviceApi& api, Device* device, void* to, const void* from,
                std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  return in_stream(api, device, [&](const auto& ours) { return api.copy(ours.stream, to, from, bytes); });
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
  // Between two GPUs the copy runs after the target's work. The work that makes the source must be over.
  if (source.device != nullptr && source.device != device)
    MQ_TRY(in_stream(*api, source.device, [](const auto&) { return Status{}; }));
  if (device != nullptr) return copy_now(*api, device, to, from, bytes);
  std::memmove(to, from, bytes);
  return {};
}

Status gather_now(const DeviceApi& api, Device* device, std::byte* to,
                  std::span<const DevicePiece> pieces) noexcept {
  std::size_t total = 0;
  for (const DevicePiece& piece : pieces) total += piece.bytes;
  if (total == 0) return {};
  return in_stream(api, device, [&](Streams::Ours& ours) -> Status {
    if (ours.pinned_bytes < total) {
      api.free_pinned(device, ours.pinned);
      ours.pinned = nullptr;
      ours.pinned_bytes = 0;
      void* fresh = nullptr;
      MQ_TRY(api.allocate_pinned(device, total, fresh));
      ours.pinned = static_cast<std::byte*>(fresh);
      ours.pinned_bytes = total;
    }
    std::byte* at = ours.pinned;
    for (const DevicePiece& piece : pieces) {
      if (piece.bytes > 0) MQ_TRY(api.copy(ours.stream, at, piece.from, piece.bytes));
      at += piece.bytes;
    }
    MQ_TRY(api.synchronize(ours.stream));
    std::memcpy(to, ours.pinned, total);
    return {};
  });
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
      in_stream(api, device, [&](const auto& ours) { return api.zero(ours.stream, fresh, bytes); });
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
