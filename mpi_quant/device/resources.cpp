#include "mpi_quant/device/resources.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace mq {

DeviceResources::~DeviceResources() {
  settle();
  free_events();
  for (DeviceStream* const stream : streams_) api_.free_stream(stream);
  if (main_event_ != nullptr) api_.free_event(main_event_);
  if (main_ != nullptr) api_.free_stream(main_);
  if (device_memory_ != nullptr) api_.free(device_, device_memory_);
  if (pinned_ != nullptr) api_.free_pinned(device_, pinned_);
}

Status DeviceResources::reserve(const Need& need) {
  settle();
  MQ_TRY(make_streams(need));
  pipelines_bytes_ = need.pipelines * need.pipeline_bytes;
  used_pipelines_ = need.pipelines;
  MQ_TRY(grow(pipelines_bytes_ + need.device_bytes, need.pinned_bytes));
  for (std::size_t i = 0; i < need.pipelines; ++i)
    pipelines_[i].memory = device_memory_ + i * need.pipeline_bytes;
  left_.reserve(pipelines_.size());
  return {};
}

Status DeviceResources::make_streams(const Need& need) {
  if (main_ == nullptr) MQ_TRY(api_.make_stream(device_, main_));
  if (main_event_ == nullptr) MQ_TRY(api_.make_event(device_, false, main_event_));
  const std::size_t of_stream = pipelines_of_stream(need.pipelines);
  used_streams_ = (need.pipelines + of_stream - 1) / of_stream;
  streams_.reserve(used_streams_);
  while (streams_.size() < used_streams_) {
    DeviceStream* stream = nullptr;
    MQ_TRY(api_.make_stream(device_, stream));
    streams_.push_back(stream);
  }
  if (events_.size() < need.pipelines) events_.resize(need.pipelines);
  if (pipelines_.size() < need.pipelines) pipelines_.resize(need.pipelines);
  if (need.is_timed && !are_timed_) free_events();
  are_timed_ = are_timed_ || need.is_timed;
  for (std::size_t i = 0; i < need.pipelines; ++i) {
    std::vector<DeviceEvent*>& events = events_[i];
    events.reserve(need.events);
    while (events.size() < need.events) {
      DeviceEvent* event = nullptr;
      MQ_TRY(api_.make_event(device_, are_timed_, event));
      events.push_back(event);
    }
    pipelines_[i].events = events;
    pipelines_[i].stream = streams_[i / of_stream];
  }
  return {};
}

void DeviceResources::free_events() {
  for (std::vector<DeviceEvent*>& events : events_) {
    for (DeviceEvent* const event : events) api_.free_event(event);
    events.clear();
  }
}

Status DeviceResources::grow(std::size_t device_bytes, std::size_t pinned_bytes) {
  if (device_bytes > device_bytes_) {
    if (device_memory_ != nullptr) api_.free(device_, std::exchange(device_memory_, nullptr));
    device_bytes_ = 0;
    void* fresh = nullptr;
    MQ_TRY(api_.allocate(device_, device_bytes, fresh));
    device_memory_ = static_cast<std::byte*>(fresh);
    device_bytes_ = device_bytes;
  }
  if (pinned_bytes > pinned_bytes_) {
    if (pinned_ != nullptr) api_.free_pinned(device_, std::exchange(pinned_, nullptr));
    pinned_bytes_ = 0;
    void* fresh = nullptr;
    MQ_TRY(api_.allocate_pinned(device_, pinned_bytes, fresh));
    pinned_ = static_cast<std::byte*>(fresh);
    pinned_bytes_ = pinned_bytes;
  }
  return {};
}

Status DeviceResources::follow(const DeviceOrder& order) {
  is_busy_ = true;
  return order.has_stream ? api_.follow_stream(main_, order.stream) : api_.follow(main_, order.sync);
}

Status DeviceResources::fork() {
  MQ_TRY(api_.record(main_event_, main_));
  for (DeviceStream* const stream : streams()) MQ_TRY(api_.wait_event(stream, main_event_));
  return {};
}

void DeviceResources::settle() {
  if (!is_busy_) return;
  const auto wait = [&](DeviceStream* stream) {
    Status status = api_.synchronize(stream);
    if (late_.ok()) late_ = std::move(status);
  };
  if (main_ != nullptr) wait(main_);
  for (DeviceStream* const stream : streams_) wait(stream);
  for (const std::span<const DeviceResult> results : left_)
    if (late_.ok() &&
        std::any_of(results.begin(), results.end(), [](const auto& r) { return r.malformed != 0; }))
      late_ = {Code::bad_frame, "an earlier stream-ordered call received a malformed message"};
  left_.clear();
  is_busy_ = false;
}

Status DeviceResources::take_error() {
  settle();
  return std::exchange(late_, {});
}

std::unique_ptr<DeviceResources> DevicePool::take(const DeviceApi& api, Device* device) {
  // give() must not allocate. So this reserves room for everything in use, and for one more.
  const std::scoped_lock lock(mutex_);
  idle_.reserve(idle_.size() + out_ + 1);
  const auto at =
      std::find_if(idle_.begin(), idle_.end(), [&](const auto& work) { return work->device() == device; });
  std::unique_ptr<DeviceResources> work;
  if (at == idle_.end()) {
    work = std::make_unique<DeviceResources>(api, device);
  } else {
    work = std::move(*at);
    idle_.erase(at);
  }
  ++out_;
  return work;
}

bool DevicePool::has(Device* device) const {
  const std::scoped_lock lock(mutex_);
  return std::any_of(idle_.begin(), idle_.end(), [&](const auto& work) { return work->device() == device; });
}

void DevicePool::give(std::unique_ptr<DeviceResources> work) noexcept {
  if (work == nullptr) return;
  const std::scoped_lock lock(mutex_);
  --out_;
  idle_.push_back(std::move(work));
}

void DevicePool::discard(std::unique_ptr<DeviceResources> work) noexcept {
  if (work == nullptr) return;
  const std::scoped_lock lock(mutex_);
  --out_;
}

std::size_t DevicePool::bytes() const {
  const std::scoped_lock lock(mutex_);
  std::size_t sum = 0;
  for (const auto& work : idle_) sum += work->bytes();
  return sum;
}

}  // namespace mq
