// GPUs in virtual time (bench/simulate/world.hpp): a table of functions (mpi_quant/base/device.hpp) whose calls cost the rank what
// driver_costs.hpp says, and a GPU that several ranks share. Nothing is computed: an encode reports its length, and that is all.
//
// The ranks of a GPU are processes. Without MPS kernels of two processes never run at the same time: the GPU goes on with the work
// of one until it has none left, and then takes `switch_s` to go over to another. Without a switch cost it is as with MPS: kernels
// of all ranks run side by side. Kernels of different streams overlap in their beginnings and ends; memory, and the bus to
// the host, serve one after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/simulate/world.hpp"
#include "kernels/cuda/dense.hpp"
#include "kernels/device.hpp"
#include "kernels/onebit/device.hpp"
#include "mpi_quant/base/device.hpp"
#include "tests/device/driver_costs.hpp"

namespace mq::test {

// What a kernel or copy moves.
struct Work {
  double memory_bytes = 0, bus_bytes = 0;
  double blocks = std::numeric_limits<double>::infinity();
};

class TimedGpu {
 public:
  struct Run {  // in a stream
    double arrive_s = 0;
    Work work;
    double done_s = kNotYet;
  };
  struct Stream {
    int rank = 0;
    std::deque<std::shared_ptr<Run>> queue;
    std::shared_ptr<Run> last;
    double free_s = 0;  // when its last run that has begun is done
  };
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();

  explicit TimedGpu(double switch_s) : switch_s_(switch_s) {}
  int switches() const { return switches_; }
  double busy_s() const { return busy_s_; }  // of its memory

  Stream* add(int rank) {
    streams_.push_back(std::make_unique<Stream>());
    streams_.back()->rank = rank;
    return streams_.back().get();
  }
  static void push(Stream& stream, double now_s, const Work& work) {
    stream.last = std::make_shared<Run>(Run{now_s, work, kNotYet});
    stream.queue.push_back(stream.last);
  }
  // Begins all that begins until then. Everything that arrives until then must have been pushed.
  void run_until(double now_s) {
    for (;;) {
      Stream* const own = next_of(true);
      Stream* const other = next_of(false);
      const double own_s = begin_s(own), other_s = std::max(begin_s(other), free_s_);
      if (own != nullptr && own_s <= other_s) {
        if (own_s > now_s) return;
        begin(*own, own_s);
      } else if (other != nullptr) {
        if (other_s > now_s) return;
        switches_ += current_ >= 0 && switch_s_ > 0;
        const double switched_s = other_s + (current_ >= 0 ? switch_s_ : 0);
        current_ = other->rank;
        begin(*other, switched_s);
      } else {
        return;
      }
    }
  }

 private:
  static double begin_s(const Stream* s) {
    return s == nullptr ? kNotYet : std::max(s->free_s, s->queue.front()->arrive_s);
  }
  Stream* next_of(bool own) const {
    Stream* next = nullptr;
    for (const auto& s : streams_)
      if (!s->queue.empty() && (switch_s_ == 0 || s->rank == current_) == own &&
          (next == nullptr || begin_s(s.get()) < begin_s(next)))
        next = s.get();
    return next;
  }
  void begin(Stream& s, double at_s) {
    Run& run = *s.queue.front();
    const double rate = std::min(kMemoryBytes, run.work.blocks * kBlockBytes);
    const double ready_s = at_s + kKernelMicroseconds * 1e-6, memory_s = run.work.memory_bytes / rate;
    double done_s = ready_s;
    if (run.work.memory_bytes > 0) {
      // One that cannot fill the memory leaves the rest of it to others.
      const double share_s = run.work.memory_bytes / kMemoryBytes;
      memory_free_s_ = std::max(memory_free_s_, ready_s) + share_s;
      done_s = std::max(memory_free_s_, ready_s + memory_s);
      busy_s_ += share_s;
    }
    if (run.work.bus_bytes > 0) {
      bus_free_s_ = std::max(bus_free_s_, ready_s) + run.work.bus_bytes / kBusBytes;
      done_s = std::max(done_s, bus_free_s_);
    }
    run.done_s = s.free_s = done_s;
    free_s_ = std::max(free_s_, done_s);
    s.queue.pop_front();
  }

  double switch_s_;
  std::vector<std::unique_ptr<Stream>> streams_;
  int current_ = -1, switches_ = 0;  // current_: the rank whose work runs
  double free_s_ = 0, memory_free_s_ = 0, bus_free_s_ = 0, busy_s_ = 0;
};

// What the calls of a rank were.
struct DriverCounts {
  int launches = 0, runs = 0, copies = 0, records = 0, queries = 0, entries = 0, waits = 0;
};

}  // namespace mq::test

namespace mq {

struct Device {
  sim::SimComm* comm = nullptr;
  test::TimedGpu* gpu = nullptr;
  test::DriverCounts counts;
  bool is_held = false, is_entered = false;
  // Addresses that nothing touches.
  std::byte *memory = nullptr, *end = nullptr, *taken = nullptr;

  std::byte* take(std::size_t bytes) { return std::exchange(taken, taken + (bytes + 255) / 256 * 256); }
  void pay(double microseconds) const { comm->compute(microseconds * 1e-6); }
  // Every call of the driver: what it costs, with its entry into the context, and what the other ranks did until then.
  Status call(double microseconds) noexcept {
    if (!is_entered) {
      ++counts.entries;
      pay(5 * test::kOtherMicroseconds);
      is_entered = is_held;
    }
    pay(microseconds);
    MQ_TRY(comm->catch_up());
    gpu->run_until(comm->now_s());
    return {};
  }
};
struct DeviceStream {
  Device* device = nullptr;
  test::TimedGpu::Stream* stream = nullptr;
};
struct DeviceEvent {
  Device* device = nullptr;
  std::shared_ptr<test::TimedGpu::Run> after;
};

}  // namespace mq

namespace mq::test {

// What a launch of the kernels of onebit and of the rows that code each element alone moves. An encode reports its length.
inline Work work_of(const kernels::Launch& launch) {
  using namespace kernels;
  Work all;
  all.blocks = double(launch.grid) * launch.runs;
  const std::string_view name = launch.kernel;
  const auto each = [&](auto of) {
    for (std::uint32_t i = 0; i < launch.runs; ++i) {
      std::memcpy(&of, static_cast<const std::byte*>(launch.args) + std::size_t{i} * launch.args_bytes,
                  sizeof of);
      if constexpr (requires { of.encoded; }) {
        *of.encoded = {of.bytes, 0, 0};
        all.memory_bytes += double(of.n) * 4 * (of.feedback == Feedback::none ? 1 : 3);
        all.bus_bytes += double(of.bytes);
      } else if constexpr (requires { of.base; }) {
        all.memory_bytes += double(of.n) * 4 * (of.base == nullptr ? 1 : 2);
        if constexpr (requires { of.cut; })  // the wire is read where it is
          all.bus_bytes += double(onebit::wire_offset<float>(of.cut, of.blocks));
      } else {
        all.bus_bytes += double(of.bytes);
      }
    }
  };
  if (name == "onebit_f32_encode") each(onebit::EncodeBlocks{});
  if (name == "onebit_f32_decode") each(onebit::DecodeBlocks{});
  if (name == "bf16_f32_encode" || name == "raw_f32_encode") each(dense::EncodeElements{});
  if (name == "bf16_f32_decode" || name == "raw_f32_decode") each(dense::DecodeElements{});
  if (name == "bring_bytes") each(dense::Bring{});
  return all;
}

class TimedApi {
 public:
  static const DeviceApi& get() {
    static const DeviceApi& api = *new DeviceApi(made());
    return api;
  }
  // Those that where() knows.
  static std::vector<Device*>& devices() {
    static std::vector<Device*> all;
    return all;
  }

 private:
  static DeviceApi made() {
    DeviceApi api{};
    api.version = kDeviceApi;
    set_device(api);
    set_streams(api);
    set_events(api);
    set_memory(api);
    return api;
  }
  static void set_device(DeviceApi& api) {
    api.where = [](const void* p, Where& where) noexcept -> Status {
      for (Device* const device : devices())
        if (p >= device->memory && p < device->end) where = {Memory::device, device};
      return {};
    };
    api.capturing = [](Device*, void*) noexcept { return false; };
    api.shape = [](Device*) noexcept -> const kernels::DeviceShape* {
      static constexpr kernels::DeviceShape kH100{132, 227 << 10};
      return &kH100;
    };
    api.name = [](Device*) noexcept { return "a simulated GPU"; };
    api.no_kernels = [](Device*) noexcept -> const char* { return nullptr; };
    api.hold = [](Device* device) noexcept { device->is_held = true; };
    api.release = [](Device* device) noexcept { device->is_held = device->is_entered = false; };
  }
  static void set_streams(DeviceApi& api) {
    api.make_stream = [](Device* device, DeviceStream*& stream) noexcept -> Status {
      stream = new DeviceStream{device, device->gpu->add(device->comm->rank())};
      return {};
    };
    api.free_stream = [](DeviceStream* stream) noexcept { delete stream; };
    api.follow = [](DeviceStream* stream, DeviceSync) noexcept {
      return stream->device->call(kRecordMicroseconds);
    };
    api.synchronize = [](DeviceStream* stream) noexcept -> Status {
      Device& device = *stream->device;
      ++device.counts.waits;
      MQ_TRY(device.call(kQueryMicroseconds));
      while (stream->stream->last != nullptr && stream->stream->last->done_s > device.comm->now_s())
        MQ_TRY(device.call(kQueryMicroseconds));
      return {};
    };
    api.launcher = [](DeviceStream* stream) noexcept -> kernels::Launcher {
      return {stream, [](void* context, const kernels::Launch& launch) noexcept {
                const DeviceStream& s = *static_cast<DeviceStream*>(context);
                ++s.device->counts.launches;
                s.device->counts.runs += static_cast<int>(launch.runs);
                (void)s.device->call(kLaunchMicroseconds);
                TimedGpu::push(*s.stream, s.device->comm->now_s(), work_of(launch));
              }};
    };
    api.launch_error = [](DeviceStream*) noexcept { return Status{}; };
  }
  static void set_events(DeviceApi& api) {
    api.make_event = [](Device* device, bool, DeviceEvent*& event) noexcept -> Status {
      event = new DeviceEvent{device, nullptr};
      return {};
    };
    api.free_event = [](DeviceEvent* event) noexcept { delete event; };
    api.record = [](DeviceEvent* event, DeviceStream* stream) noexcept -> Status {
      ++event->device->counts.records;
      event->after = stream->stream->last;
      return event->device->call(kRecordMicroseconds);
    };
    api.query = [](DeviceEvent* event, bool& done) noexcept -> Status {
      ++event->device->counts.queries;
      MQ_TRY(event->device->call(kQueryMicroseconds));
      done = event->after == nullptr || event->after->done_s <= event->device->comm->now_s();
      return {};
    };
    api.wait_event = [](DeviceStream* stream, DeviceEvent*) noexcept {
      return stream->device->call(kRecordMicroseconds);
    };
  }
  static void set_memory(DeviceApi& api) {
    api.allocate = [](Device* device, std::size_t bytes, void*& p) noexcept -> Status {
      p = device->take(bytes);
      return {};
    };
    api.free = [](Device*, void*) noexcept {};
    api.allocate_pinned = [](Device*, std::size_t bytes, void*& p) noexcept -> Status {
      p = ::operator new(bytes, std::align_val_t(256), std::nothrow);
      return p != nullptr ? Status{} : Status{Code::no_memory, "out of memory"};
    };
    api.free_pinned = [](Device*, void* p) noexcept { ::operator delete(p, std::align_val_t(256)); };
    api.copy = [](DeviceStream* stream, void*, const void*, std::size_t bytes) noexcept -> Status {
      ++stream->device->counts.copies;
      MQ_TRY(stream->device->call(kCopyMicroseconds));
      TimedGpu::push(*stream->stream, stream->device->comm->now_s(), {0, static_cast<double>(bytes), 1e9});
      return {};
    };
  }
};

}  // namespace mq::test
