// A GPU for the tests of the executor: a DeviceApi over host memory that nobody may touch but the operations
// of a stream (hidden_memory.hpp). Streams are lazy: their work is done when somebody waits for it, or has
// asked a few times. Kernels are the host's rows, so that every codec has one. Each Device counts what is
// asked of it and can be told to fail.
//
// Why there is also a fake driver (fake_cuda/fake.hpp): the two stand for different interfaces. This table is
// what the engine calls; it has any number of devices for ranks that are threads of one process, fails at
// the n-th call of one rank, and needs neither CUDA nor an emulator, so that plans and codecs are tested fast
// and in every build. The driver is what mpi_quant/cuda calls, whose own code is left out here. Both have the
// same lazy streams (lazy_stream.hpp).
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "mpi_quant/base/device.hpp"
#include "mpi_quant/device/placement.hpp"
#include "tests/device/hidden_memory.hpp"
#include "tests/device/lazy_stream.hpp"
#include "tests/kernels/host_kernels.hpp"

namespace mq {

struct Device {
  int calls = 0;                                                     // that may fail
  int fail_at = -1;                                                  // the call with this number fails,
  bool stays_bad = false;                                            // and all after it
  int launches = 0, runs = 0, copies = 0, records = 0, queries = 0;  // runs: in the launches
  int allocations = 0, events = 0, waits = 0;
  int holds = 0;  // how often its context was entered by hold() and what came after it
  bool kernels = true, captures = false;
  bool is_bad = false;               // since a failure that stays
  int sent_when_bad = 0;             // messages out of its memory since then
  std::size_t used = 0, placed = 0;  // bytes of its memory: allocated ones, the program's
  int live = 0;                      // allocations that were not freed
  int number = 0;
};
struct DeviceStream {
  Device* device = nullptr;
  test::LazyStream work;
  Status launch_error;
};
struct DeviceEvent {
  Device* device = nullptr;
  DeviceStream* stream = nullptr;
  test::Lazy reached;  // null: nothing was before it
  std::size_t at = 0;  // so many operations of the stream were
  int patience = 0, asked = 0;
};

}  // namespace mq

namespace mq::test {

class Gpus {
 public:
  static constexpr std::size_t kPart = std::size_t{256} << 20;  // bytes of a device
  static constexpr int kDevices = 6;

  static Gpus& get() {
    static Gpus& g = *new Gpus;
    return g;
  }
  Device& device(int i) { return devices_[static_cast<std::size_t>(i)]; }
  // Everything as at first; nothing of a device is in use.
  void reset() {
    const std::scoped_lock lock(mutex_);
    for (int i = 0; i < kDevices; ++i) {
      device(i) = Device{};
      device(i).number = i;
      program_[static_cast<std::size_t>(i)] = DeviceStream{&device(i), {}, {}};
    }
  }
  // The program's own stream of a device, legacy or not: there is one.
  DeviceStream* program(Device* device) { return &program_[static_cast<std::size_t>(device->number)]; }
  // What the program launches.
  void enqueue(DeviceStream* stream, const std::function<void()>& operation) {
    const std::scoped_lock lock(mutex_);
    push(stream, operation);
  }
  void finish(DeviceStream* stream) {
    const std::scoped_lock lock(mutex_);
    run(stream);
  }
  // The library's memory, or null; and the program's, which lives until the next forget().
  std::byte* allocate(Device* device, std::size_t bytes) {
    if (device->live == 0) device->used = 0;
    if (device->used + bytes > kPart / 2) return nullptr;
    ++device->live;
    return memory_.begin() + static_cast<std::size_t>(device->number) * kPart + cut(device->used, bytes);
  }
  std::byte* place(Device* device, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    return memory_.begin() + static_cast<std::size_t>(device->number) * kPart + kPart / 2 +
           cut(device->placed, bytes);
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    for (Device& device : devices_) device.placed = 0;
  }
  // By hand, between calls.
  void write(std::byte* to, const void* from, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    std::memcpy(memory_.inside(to), from, bytes);
  }
  void read(void* to, const std::byte* from, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    std::memcpy(to, memory_.inside(from), bytes);
  }
  DeviceRows rows(bool device_wire = false, bool is_timed = false);
  // As a communication reads and writes messages that may be in devices' memory.
  static void carry(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    if (get().device_of(to) == nullptr && get().device_of(from) == nullptr) {
      std::memcpy(to, from, bytes);
      return;
    }
    const std::scoped_lock lock(get().mutex());
    if (Device* const device = get().device_of(from); device != nullptr && device->is_bad)
      ++device->sent_when_bad;
    std::memcpy(get().memory_.inside(to), get().memory_.inside(from), bytes);
  }

  Device* device_of(const void* p) {
    if (!memory_.has(p)) return nullptr;
    const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(p) - memory_.begin());
    return &device(static_cast<int>(at / kPart));
  }
  Status count(Device* device) {
    const int number = device->calls++;
    const bool fails = device->fail_at >= 0 &&
                       (number == device->fail_at || (device->stays_bad && number > device->fail_at));
    if (!fails) return {};
    device->is_bad = device->stays_bad;
    return {Code::device_failed, "this GPU was told to fail"};
  }
  template <class Operation>
  void push(DeviceStream* stream, const Operation& operation) {
    (void)stream->work.push([operation] { return operation(), 0; });
  }
  // What comes next in a stream comes after this.
  void wait_for(DeviceStream* stream, test::Lazy after) {
    (void)stream->work.push([] { return 0; }, {std::move(after)});
  }
  void run(DeviceStream* stream) { (void)test::LazyStream::complete(stream->work.last()); }
  std::recursive_mutex& mutex() { return mutex_; }

 private:
  static void set_places(DeviceApi& api);
  static void set_streams(DeviceApi& api);
  static void set_events(DeviceApi& api);
  static void set_memory(DeviceApi& api);
  static void set_kernels(DeviceApi& api);
  static std::size_t cut(std::size_t& used, std::size_t bytes) {
    return std::exchange(used, used + (bytes + 255) / 256 * 256);
  }
  Gpus() { reset(); }
  std::recursive_mutex mutex_;
  HiddenMemory memory_{kPart * kDevices};
  std::array<Device, kDevices> devices_;
  std::array<DeviceStream, kDevices> program_;
};

inline void Gpus::set_places(DeviceApi& api) {
  api.where = [](const void* p, Where& where) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    Device* const device = get().device_of(p);
    where = {device == nullptr ? Memory::host : Memory::device, device};
    return device == nullptr ? Status{} : get().count(device);
  };
  api.capturing = [](Device* device, void*) noexcept { return device->captures; };
  api.shape = [](Device*) noexcept -> const kernels::DeviceShape* {
    static constexpr kernels::DeviceShape kShape;
    return &kShape;
  };
  api.name = [](Device*) noexcept { return "a GPU of the tests"; };
  api.no_kernels = [](Device* device) noexcept { return device->kernels ? nullptr : "it has none"; };
  api.hold = [](Device* device) noexcept {
    const std::scoped_lock lock(get().mutex());
    ++device->holds;
  };
  api.release = [](Device*) noexcept {};
}

inline void Gpus::set_streams(DeviceApi& api) {
  api.make_stream = [](Device* device, DeviceStream*& stream) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(device));
    stream = new DeviceStream{device, {}, {}};
    ++device->allocations;
    return {};
  };
  api.wrap_stream = [](Device*, void*, DeviceStream*&) noexcept -> Status {
    return {Code::device_failed, "not here"};
  };
  api.free_stream = [](DeviceStream* stream) noexcept {
    get().finish(stream);
    delete stream;
  };
  api.follow = [](DeviceStream* stream, DeviceSync sync) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(stream->device));
    if (sync != DeviceSync::none) get().wait_for(stream, get().program(stream->device)->work.last());
    return {};
  };
  api.follow_stream = [](DeviceStream* stream, void* of_program) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(stream->device));
    get().wait_for(stream, static_cast<DeviceStream*>(of_program)->work.last());
    return {};
  };
  api.lead_stream = [](DeviceStream* stream, void* of_program) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(stream->device));
    get().wait_for(static_cast<DeviceStream*>(of_program), stream->work.last());
    return {};
  };
  api.synchronize = [](DeviceStream* stream) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    ++stream->device->waits;
    const Status status = get().count(stream->device);
    get().run(stream);
    return status;
  };
}

inline void Gpus::set_events(DeviceApi& api) {
  api.make_event = [](Device* device, bool, DeviceEvent*& event) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(device));
    event = new DeviceEvent{device, nullptr, nullptr, 0, 0, 0};
    ++device->events;
    return {};
  };
  api.free_event = [](DeviceEvent* event) noexcept { delete event; };
  api.record = [](DeviceEvent* event, DeviceStream* stream) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    ++event->device->records;
    MQ_TRY(get().count(event->device));
    event->stream = stream;
    event->reached = stream->work.last();
    event->at = stream->work.pushed();
    event->patience = static_cast<int>(event->at * 7 % 4);
    event->asked = 0;
    return {};
  };
  api.query = [](DeviceEvent* event, bool& done) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    ++event->device->queries;
    MQ_TRY(get().count(event->device));
    done = test::LazyStream::is_due(event->reached, event->patience, event->asked);
    if (done) (void)test::LazyStream::complete(event->reached);
    return {};
  };
  api.wait_event = [](DeviceStream* stream, DeviceEvent* event) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(stream->device));
    get().wait_for(stream, event->reached);
    return {};
  };
  api.elapsed = [](DeviceEvent* from, DeviceEvent* to, double& seconds) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    seconds = from->stream == to->stream && from->at < to->at ? 1 : 0;  // a step
    return {};
  };
}

inline void Gpus::set_memory(DeviceApi& api) {
  api.allocate = [](Device* device, std::size_t bytes, void*& p) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(device));
    ++device->allocations;
    p = get().allocate(device, bytes);
    return p != nullptr ? Status{} : Status{Code::no_memory, "the GPU is full"};
  };
  api.free = [](Device* device, void*) noexcept {
    const std::scoped_lock lock(get().mutex());
    --device->live;
  };
  api.allocate_pinned = [](Device* device, std::size_t bytes, void*& p) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(device));
    ++device->allocations;
    p = ::operator new(bytes, std::align_val_t(256));
    std::memset(p, 0x77, bytes);
    return {};
  };
  api.free_pinned = [](Device*, void* p) noexcept { ::operator delete(p, std::align_val_t(256)); };
  api.copy = [](DeviceStream* stream, void* to, const void* from, std::size_t bytes) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    ++stream->device->copies;
    MQ_TRY(get().count(stream->device));
    get().push(stream, [=] { std::memcpy(get().memory_.inside(to), get().memory_.inside(from), bytes); });
    return {};
  };
  api.zero = [](DeviceStream* stream, void* p, std::size_t bytes) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    MQ_TRY(get().count(stream->device));
    get().push(stream, [=] { std::memset(get().memory_.inside(p), 0, bytes); });
    return {};
  };
}

inline void Gpus::set_kernels(DeviceApi& api) {
  api.launcher = [](DeviceStream* stream) noexcept -> kernels::Launcher {
    return {stream, [](void* context, const kernels::Launch& launch) noexcept {
              const std::scoped_lock lock(get().mutex());
              auto* const s = static_cast<DeviceStream*>(context);
              ++s->device->launches;
              s->device->runs += static_cast<int>(launch.runs);
              if (!s->launch_error.ok()) return;
              s->launch_error = get().count(s->device);
              if (!s->launch_error.ok()) return;
              std::vector<std::byte> args(std::size_t{launch.args_bytes} * launch.runs);
              std::memcpy(args.data(), launch.args, args.size());
              get().memory_.enter(args);
              get().push(
                  s, [name = std::string(launch.kernel), args = std::move(args), bytes = launch.args_bytes] {
                    for (std::size_t at = 0; at < args.size(); at += bytes)
                      host_kernels::run(name, args.data() + at);
                  });
            }};
  };
  api.launch_error = [](DeviceStream* stream) noexcept -> Status {
    const std::scoped_lock lock(get().mutex());
    return std::exchange(stream->launch_error, Status{});
  };
}

inline DeviceRows Gpus::rows(bool device_wire, bool is_timed) {
  static const DeviceApi& api = *new DeviceApi([] {
    DeviceApi table{};
    table.version = kDeviceApi;
    set_places(table);
    set_streams(table);
    set_events(table);
    set_memory(table);
    set_kernels(table);
    return table;
  }());
  return {&api,
          [](const kernels::Codec& codec, kernels::Element element, const kernels::Params&) noexcept {
            const auto number = static_cast<std::size_t>(&codec - kernels::codecs().data());
            constexpr auto kAll = std::make_index_sequence<host_kernels::kMostCodecs>();
            return element == kernels::Element::f64 ? host_kernels::nth<kernels::Element::f64>(number, kAll)
                                                    : host_kernels::nth<kernels::Element::f32>(number, kAll);
          },
          [](kernels::Element half) noexcept -> const kernels::DeviceConvertOps* {
            if (half == kernels::Element::f16) return host_kernels::convert<kernels::Element::f16>();
            if (half == kernels::Element::bf16) return host_kernels::convert<kernels::Element::bf16>();
            return nullptr;
          },
          [](const kernels::Codec&, kernels::Element) noexcept -> const kernels::DeviceMeasureOps* {
            return nullptr;
          },
          device_wire,
          is_timed};
}

}  // namespace mq::test
