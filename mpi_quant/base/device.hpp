// What the library needs from a GPU, as a table of functions: kind of a pointer's memory, streams, events,
// copies, memory, kernels. libmpi_quant_cuda.so fills the table in. Nothing else names CUDA. The table is
// found at run time, and only if the program itself has mapped a driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/device.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

// Opaque; owned by libmpi_quant_cuda.so.
struct Device;        // one GPU: its primary context and the image of kernels. Never freed
struct DeviceStream;  // a stream of the library
struct DeviceEvent;

enum class Memory : std::uint8_t {
  host,    // includes registered host memory, and all memory that the driver does not know
  device,  // includes managed memory
};
struct Where {
  Memory memory = Memory::host;
  Device* device = nullptr;  // for device memory
};

// After which work of the program the library's stream runs (MPIQ_CUDA_SYNC).
enum class DeviceSync : std::uint8_t {
  legacy,     // after the legacy default stream, as a synchronous copy would be
  perthread,  // after the calling thread's default stream
  none,
  device,  // after all work: the call waits for the GPU
};
inline constexpr std::array<std::string_view, 4> kDeviceSyncs{"legacy", "perthread", "none", "device"};

// Where the frames of a codec that runs on a device are (MPIQ_CUDA_WIRE).
enum class DeviceWire : std::uint8_t {
  host,       // in pinned host memory, which every MPI can send
  device,     // in the memory of the device; an error if MPI does not say that it takes it
  automatic,  // in the memory of the device if MPI says that it takes it, else in pinned host memory
};
inline constexpr std::array<std::string_view, 3> kDeviceWires{"host", "device", "auto"};

// Functions push and pop the context that they need, between hold and release only the first of them. They
// leave the caller's current context and capture alone. They return Code::device_failed with the driver's
// words, or Code::no_memory if there is none left. They do not wait unless their comment says so. All may be
// called from any thread.
struct DeviceApi {
  std::uint32_t version;  // kDeviceApi; stays the first member for ever

  // Where the byte at p is. An error means that this library cannot use the device (no memory, no image, or
  // the device is too old). Cheap: one driver call.
  Status (*where)(const void* p, Where&) noexcept;
  // True if `stream` is being captured: then nothing may be launched. stream null: true if a blocking stream
  // or the calling thread's default stream is being captured. The driver cannot tell about other streams
  // without breaking the capture.
  bool (*capturing)(Device*, void* stream) noexcept;
  const kernels::DeviceShape* (*shape)(Device*) noexcept;
  const char* (*name)(Device*) noexcept;  // the driver's name of the GPU
  // Null if kernels can be launched on this device. Else the reason (the image has none for it); vectors are
  // then staged through host memory. If there was no memory for the kernels, it tries again. The text is
  // never freed.
  const char* (*no_kernels)(Device*) noexcept;

  // Until release, the device's context stays current in this thread once a function has needed it: a driver
  // takes five calls to enter and leave it. Nothing but functions of this table may be called in between. Not
  // nested.
  void (*hold)(Device*) noexcept;
  void (*release)(Device*) noexcept;

  // Streams. make_stream: a new non-blocking stream of the library. wrap_stream: a stream of the program (a
  // cudaStream_t, which the program keeps alive). free_stream frees both kinds, but not the program's stream
  // itself.
  Status (*make_stream)(Device*, DeviceStream*&) noexcept;
  Status (*wrap_stream)(Device*, void* stream, DeviceStream*&) noexcept;
  void (*free_stream)(DeviceStream*) noexcept;
  // Work launched from now on runs after work that the program launched before, as DeviceSync says.
  Status (*follow)(DeviceStream*, DeviceSync) noexcept;
  // Work launched from now on in the DeviceStream runs after the work that is now in `stream` of the program
  // (a cudaStream_t; null: the legacy default stream).
  Status (*follow_stream)(DeviceStream*, void* stream) noexcept;
  // The opposite: later work in the program's stream runs after the work that is now in the DeviceStream.
  Status (*lead_stream)(DeviceStream*, void* stream) noexcept;
  Status (*synchronize)(DeviceStream*) noexcept;  // waits

  // Events. Only those that are timed serve elapsed(); the others cost the driver less.
  Status (*make_event)(Device*, bool is_timed, DeviceEvent*&) noexcept;
  void (*free_event)(DeviceEvent*) noexcept;
  Status (*record)(DeviceEvent*, DeviceStream*) noexcept;
  Status (*query)(DeviceEvent*, bool& done) noexcept;
  Status (*wait_event)(DeviceStream*, DeviceEvent*) noexcept;  // the stream waits, not the caller
  // Seconds between two events that have been reached.
  Status (*elapsed)(DeviceEvent* from, DeviceEvent* to, double& seconds) noexcept;

  // Memory. Pinned memory has the same address on host and device. allocate aligns to 256 bytes.
  Status (*allocate)(Device*, std::size_t bytes, void*& p) noexcept;
  void (*free)(Device*, void* p) noexcept;
  Status (*allocate_pinned)(Device*, std::size_t bytes, void*& p) noexcept;
  void (*free_pinned)(Device*, void* p) noexcept;
  // Copies between any two kinds of memory, in stream order. With pageable host memory it may wait.
  Status (*copy)(DeviceStream*, void* to, const void* from, std::size_t bytes) noexcept;
  Status (*zero)(DeviceStream*, void* p, std::size_t bytes) noexcept;

  // A launcher into the stream. launch_error returns the first error of its launches and forgets it.
  kernels::Launcher (*launcher)(DeviceStream*) noexcept;
  Status (*launch_error)(DeviceStream*) noexcept;
};
inline constexpr std::uint32_t kDeviceApi = 3;

class HoldDevice {
 public:
  HoldDevice(const DeviceApi& api, Device* device) : api_(api), device_(device) { api_.hold(device_); }
  ~HoldDevice() { api_.release(device_); }
  HoldDevice(const HoldDevice&) = delete;
  HoldDevice& operator=(const HoldDevice&) = delete;

 private:
  const DeviceApi& api_;
  Device* device_;
};

// The table. Null if no driver is mapped, if MPIQ_CUDA=off, or if libmpi_quant_cuda.so cannot be used. As
// long as there is no driver, each call looks again. That costs two loads and a comparison.
const DeviceApi* device_api() noexcept;

// Why device_api() is null although a driver is mapped and MPIQ_CUDA is not off. Null if it is not null, or
// if nobody has asked yet. The text is never freed.
const char* device_unusable_reason() noexcept;

// Why vectors were staged through host memory: the last reason of DeviceApi::no_kernels that was given to
// note_no_kernels. Null if none were staged. The text is never freed.
const char* staging_reason() noexcept;
void note_no_kernels(const char* why) noexcept;

// The one symbol of libmpi_quant_cuda.so, mpiq_cuda_api. It returns the table of this version, or null and
// the reason, which is never freed. A driver must be mapped.
using CudaApi = const DeviceApi*(std::uint32_t version, const char** reason);

// Where p is. Without a table everything is host memory.
Result<Where> where(const void* p) noexcept;

}  // namespace mq
