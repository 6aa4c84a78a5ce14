// The GPU resources of a call that are too expensive to make for each call: streams, events, device memory
// and pinned memory. A pool of the communicator keeps them, so that repeated calls make none.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "mpi_quant/base/device.hpp"
#include "mpi_quant/device/steps.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq {

// The work of the program that must be complete before a call reads its vectors.
struct DeviceOrder {
  DeviceSync sync = DeviceSync::legacy;
  bool has_stream = false;  // only the work of this stream
  void* stream = nullptr;
};

// The resources of one device, used by one call at a time.
class DeviceResources {
 public:
  DeviceResources(const DeviceApi& api, Device* device) : api_(api), device_(device) {}
  ~DeviceResources();  // waits for launched work
  DeviceResources(const DeviceResources&) = delete;
  DeviceResources& operator=(const DeviceResources&) = delete;

  struct Need {
    std::size_t pipelines = 0, events = 0;  // events: for each pipeline
    std::size_t pipeline_bytes = 0;         // of each pipeline on the device, a multiple of 256
    std::size_t device_bytes = 0;           // in addition to the pipelines
    std::size_t pinned_bytes = 0;
    bool is_timed = false;  // the events serve elapsed()
  };
  // Waits for the work that an earlier call left running. Then makes what is missing. May throw
  // std::bad_alloc.
  Status reserve(const Need& need);
  // After follow(), launches in main() run after the program's work. After fork(), launches in the pipelines
  // run after everything that main() has at that moment.
  Status follow(const DeviceOrder& order);
  Status fork();
  // Call it when everything that was launched is complete.
  void mark_idle() { is_busy_ = !left_.empty(); }
  // Waits for all streams that may be busy, and keeps the first error. An error may be a malformed frame,
  // found by a decode that was left running.
  void settle();
  // Waits like settle(). Then returns the kept error and forgets it.
  Status take_error();
  // Registers results that settle() checks when the streams are complete.
  void check_later(std::span<const DeviceResult> results) { left_.push_back(results); }

  const DeviceApi& api() const { return api_; }
  Device* device() const { return device_; }
  DeviceStream* main() const { return main_; }
  DeviceEvent* main_event() const { return main_event_; }
  std::span<const DevicePipeline> pipelines() const { return {pipelines_.data(), used_pipelines_}; }
  std::span<DeviceStream* const> streams() const {
    return {streams_.data(), used_streams_};
  }  // of the pipelines
  // In addition to the pipelines' memory. Null if there was no memory.
  std::byte* device_memory() const {
    return device_memory_ == nullptr ? nullptr : device_memory_ + pipelines_bytes_;
  }
  std::byte* pinned() const { return pinned_; }
  std::size_t bytes() const { return device_bytes_ + pinned_bytes_; }

 private:
  Status make_streams(const Need& need);
  void free_events();
  Status grow(std::size_t device_bytes, std::size_t pinned_bytes);

  const DeviceApi& api_;
  Device* const device_;
  DeviceStream* main_ = nullptr;
  DeviceEvent* main_event_ = nullptr;
  bool is_busy_ = false, are_timed_ = false;  // timed: events_
  std::size_t used_pipelines_ = 0, used_streams_ = 0, pipelines_bytes_ = 0;
  std::vector<DeviceStream*> streams_;
  std::vector<DevicePipeline> pipelines_;
  std::vector<std::vector<DeviceEvent*>> events_;  // by pipeline
  std::byte *device_memory_ = nullptr, *pinned_ = nullptr;
  std::size_t device_bytes_ = 0, pinned_bytes_ = 0;
  std::vector<std::span<const DeviceResult>> left_;
  Status late_;  // the error kept by settle()
};

// The resources that no call uses. Thread-safe.
class DevicePool {
 public:
  // Returns resources of this device, new ones if the pool has none. May throw std::bad_alloc.
  std::unique_ptr<DeviceResources> take(const DeviceApi& api, Device* device);
  bool has(Device* device) const;  // whether take() would return used resources
  // give() takes resources back into the pool. discard() frees them, because something is wrong with them.
  void give(std::unique_ptr<DeviceResources> work) noexcept;
  void discard(std::unique_ptr<DeviceResources> work) noexcept;
  std::size_t bytes() const;  // of those in the pool

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceResources>> idle_;
  std::size_t out_ = 0;  // number in use by calls
};

}  // namespace mq
