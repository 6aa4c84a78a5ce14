// A GPU as libmpi_quant_cuda.so sees it, and ContextScope, which surrounds every call into its driver. The
// functions of the table are in memory.cpp, streams.cpp and launch.cpp.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include "mpi_quant/base/device.hpp"
#include "mpi_quant/cuda/driver.hpp"

namespace mq {

// One context of a GPU: the primary one, or a context of the program that owns a vector. The contexts form a
// list and are never freed.
struct Device {
  int ordinal = 0;
  cuda::CuContext context = nullptr;
  bool is_primary = true;
  // Distinguishes a context from a later one at the same address; 0: the driver has no such ids.
  unsigned long long context_id = 0;
  std::string name;
  kernels::DeviceShape shape;
  std::atomic<cuda::CuModule> module{nullptr};
  std::atomic<const char*> no_kernels{nullptr};  // why module is null; never freed
  std::atomic<bool> may_load_later{false};       // there was not enough memory to load it
  std::atomic<bool> gone{false};  // the context was destroyed with its content (cudaDeviceReset)
  std::mutex mutex;               // held while loading the module and writing the kernels
  // The kernels launched so far, found without a lock: a hash table by the address of the name.
  struct Kernel {
    std::atomic<const char*> name{nullptr};  // written last
    cuda::CuFunction function = nullptr;
    std::atomic<std::uint32_t> shared_bytes{0};  // dynamic shared memory that it may use
  };
  static constexpr std::size_t kMostKernels = 512;  // several times the number in the image
  std::array<Kernel, kMostKernels> kernels;
  Device* next = nullptr;
};

struct DeviceStream {
  Device* device = nullptr;
  cuda::CuStream stream = nullptr;
  bool is_ours = false;
  cuda::CuEvent order = nullptr;  // for follow and lead
  Status launch_error;
};

struct DeviceEvent {
  Device* device = nullptr;
  cuda::CuEvent event = nullptr;
};

namespace cuda {

// What the entry into a context has changed.
struct ContextEntry {
  int mode = kCaptureModeRelaxed;
  bool has_mode = false, is_pushed = false;

  Status enter(Device&) noexcept;
  void leave() noexcept;
};

// While this object lives, the device's context is current in the calling thread, and calls are allowed that
// a capture in another thread would forbid. The destructor restores both, or release() if the thread holds
// the device.
class ContextScope {
 public:
  explicit ContextScope(Device&) noexcept;
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
  ContextEntry own_;
};

// Calls a function of the driver in the device's context.
template <class... A, class... B>
Status call_driver(Device& device, const Function<A...>& function, B... arguments) noexcept {
  const CuResult result = function(arguments...);
  if (result == kSuccess) return {};
  if (result == kContextIsDestroyed) device.gone = true;
  return failure(device.ordinal, function.name, result);
}

// Loads the image of kernels into the context, which must be current. If the driver cannot use the image,
// that is no error: vectors are staged then. Call it from one thread at a time.
void load_image(Device&);

// The functions of the table; see DeviceApi.
Status where(const void* p, Where&) noexcept;
bool capturing(Device*, void* stream) noexcept;
void hold(Device*) noexcept;
void release(Device*) noexcept;
Status make_stream(Device*, DeviceStream*&) noexcept;
Status wrap_stream(Device*, void* stream, DeviceStream*&) noexcept;
void free_stream(DeviceStream*) noexcept;
Status follow(DeviceStream*, DeviceSync) noexcept;
Status follow_stream(DeviceStream*, void* stream) noexcept;
Status lead_stream(DeviceStream*, void* stream) noexcept;
Status synchronize(DeviceStream*) noexcept;
Status make_event(Device*, bool is_timed, DeviceEvent*&) noexcept;
void free_event(DeviceEvent*) noexcept;
Status record(DeviceEvent*, DeviceStream*) noexcept;
Status query(DeviceEvent*, bool& done) noexcept;
Status wait_event(DeviceStream*, DeviceEvent*) noexcept;
Status elapsed(DeviceEvent* from, DeviceEvent* to, double& seconds) noexcept;
Status allocate(Device*, std::size_t bytes, void*& p) noexcept;
void free(Device*, void* p) noexcept;
Status allocate_pinned(Device*, std::size_t bytes, void*& p) noexcept;
void free_pinned(Device*, void* p) noexcept;
Status copy(DeviceStream*, void* to, const void* from, std::size_t bytes) noexcept;
Status zero(DeviceStream*, void* p, std::size_t bytes) noexcept;
kernels::Launcher launcher(DeviceStream*) noexcept;
Status launch_error(DeviceStream*) noexcept;

}  // namespace cuda
}  // namespace mq
