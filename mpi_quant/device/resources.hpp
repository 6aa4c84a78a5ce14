// What calls need of a GPU and is too dear to make for each: streams, events, memory on the device and pinned
// memory. Kept in a pool of the communicator, so that calls like those before make none.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "mpi_quant/base/device.hpp"
#include "mpi_quant/device/steps.hpp"
#include "mpi_quant/engine/job.hpp"

namespace mq {

// After which work of the program a call's vectors are read.
struct DeviceOrder {
  DeviceSync sync = DeviceSync::legacy;
  bool has_stream = false;  // after that of this stream alone
  void* stream = nullptr;
};

// Of one device; for one call at a time.
class DeviceResources {
 public:
  DeviceResources(const DeviceApi& api, Device* device) : api_(api), device_(device) {}
  ~DeviceResources();  // waits for what is under way
  DeviceResources(const DeviceResources&) = delete;
  DeviceResources& operator=(const DeviceResources&) = delete;

  struct Need {
    std::size_t lanes = 0, events = 0;  // a lane
    std::size_t lane_bytes = 0;         // on the device, a multiple of 256
    std::size_t device_bytes = 0;       // beside the lanes'
    std::size_t pinned_bytes = 0;
  };
  // Waits for what an earlier call left under way. Then makes what is missing. May throw std::bad_alloc.
  Status reserve(const Need& need);
  // What is launched from now on in main() runs after the program's work. That in the lanes comes after what
  // main() has when fork() is called.
  Status follow(const DeviceOrder& order);
  Status fork();
  // All that was launched has come to its end.
  void rest() { is_busy_ = !left_.empty(); }
  // Waits for all streams that may be busy. The first error is kept: decodes that were left() under way may
  // have found malformed frames.
  void settle();
  // Settles; then the error that was kept, which is forgotten.
  Status verdict();
  // These results are to be looked at once the streams have come to their ends.
  void leave(std::span<const DeviceResult> results) { left_.push_back(results); }

  const DeviceApi& api() const { return api_; }
  Device* device() const { return device_; }
  DeviceStream* main() const { return main_; }
  DeviceEvent* main_event() const { return main_event_; }
  std::span<const DeviceLane> lanes() const { return {lanes_.data(), used_lanes_}; }
  std::byte* device_memory() const { return device_memory_ + lanes_bytes_; }  // beside the lanes'
  std::byte* pinned() const { return pinned_; }
  std::size_t bytes() const { return device_bytes_ + pinned_bytes_; }

 private:
  Status make_streams(const Need& need);
  Status grow(std::size_t device_bytes, std::size_t pinned_bytes);

  const DeviceApi& api_;
  Device* const device_;
  DeviceStream* main_ = nullptr;
  DeviceEvent* main_event_ = nullptr;
  bool is_busy_ = false;
  std::size_t used_lanes_ = 0, lanes_bytes_ = 0;
  std::vector<DeviceLane> lanes_;
  std::vector<std::vector<DeviceEvent*>> events_;  // by lane
  std::byte *device_memory_ = nullptr, *pinned_ = nullptr;
  std::size_t device_bytes_ = 0, pinned_bytes_ = 0;
  std::vector<std::span<const DeviceResult>> left_;
  Status late_;  // kept by settle()
};

// The works that no call has. May be used by several threads.
class DevicePool {
 public:
  // One of this device; made if there is none. May throw std::bad_alloc.
  std::unique_ptr<DeviceResources> take(const DeviceApi& api, Device* device);
  bool has(Device* device) const;  // take() would give one that was used
  // Takes it back; or ends it, as something is wrong with it.
  void give(std::unique_ptr<DeviceResources> work) noexcept;
  void lose(std::unique_ptr<DeviceResources> work) noexcept;
  std::size_t bytes() const;  // of those that are here

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceResources>> idle_;
  std::size_t out_ = 0;  // that calls have
};

}  // namespace mq
