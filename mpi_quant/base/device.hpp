// What the library needs of a GPU, as a table of functions that libmpi_quant_cuda.so fills in: where a
// pointer points, streams, events, copies, memory, kernels. Separate because nothing else names CUDA: the
// table is found at run time, and only where the program itself has mapped a driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/device.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

// Opaque; owned by libmpi_quant_cuda.so.
struct Device;        // one GPU: its primary context, the image of kernels. Never freed
struct DeviceStream;  // a stream of ours
struct DeviceEvent;

enum class Memory : std::uint8_t {
  host,    // also registered host memory, and whatever the driver does not know
  device,  // also managed memory
};
struct Where {
  Memory memory = Memory::host;
  Device* device = nullptr;  // of device memory
};

// How our stream is ordered after what the program did before the call (MPIQ_CUDA_SYNC).
enum class DeviceSync : std::uint8_t {
  legacy,     // after the legacy default stream, as a synchronous copy would be
  perthread,  // after the calling thread's default stream
  none,
  device,  // after everything: the call waits for the GPU
};
inline constexpr std::array<std::string_view, 4> kDeviceSyncs{"legacy", "perthread", "none", "device"};

// Where the frames of a codec that runs on a device are (MPIQ_CUDA_WIRE).
enum class DeviceWire : std::uint8_t {
  host,       // in pinned host memory, which every MPI can send
  device,     // in the device's memory: an error if MPI does not say that it takes it
  automatic,  // there if MPI says so
};
inline constexpr std::array<std::string_view, 3> kDeviceWires{"host", "device", "auto"};

// Functions push and pop the context they need, leave the caller's current context and capture alone, and
// return Code::device_failed with the driver's words, or Code::no_memory if it ran out. None waits but those
// that say so. All may be called from any thread.
struct DeviceApi {
  std::uint32_t version;  // kDeviceApi; first for ever

  // Where the byte at p is. An error: the device cannot be used by this library (no memory, no image, too
  // old). Cheap: one driver call.
  Status (*where)(const void* p, Where&) noexcept;
  // True if `stream` is being captured: then nothing may be launched. Null: a stream that is blocking or the
  // calling thread's default stream; of others the driver does not tell without breaking the capture.
  bool (*capturing)(Device*, void* stream) noexcept;
  const kernels::DeviceShape* (*shape)(Device*) noexcept;
  const char* (*name)(Device*) noexcept;  // of the GPU, as the driver names it
  // Null if kernels can be launched on this device; else why not (the image has none for it). Then vectors
  // are staged through host memory. Where there was no memory for them it asks again. Lives for ever.
  const char* (*no_kernels)(Device*) noexcept;

  // Streams. make: a non-blocking stream of ours. wrap: of the program's stream (a cudaStream_t, which the
  // program keeps alive); freed like ours, the program's stays.
  Status (*make_stream)(Device*, DeviceStream*&) noexcept;
  Status (*wrap_stream)(Device*, void* stream, DeviceStream*&) noexcept;
  void (*free_stream)(DeviceStream*) noexcept;
  // What is launched from now on runs after what the program launched before, as DeviceSync says.
  Status (*follow)(DeviceStream*, DeviceSync) noexcept;
  // What is launched from now on in `stream` runs after what `stream` of the program holds now (a
  // cudaStream_t; null: the legacy default stream).
  Status (*follow_stream)(DeviceStream*, void* stream) noexcept;
  // The other way round: the program's stream goes on after what ours holds now.
  Status (*lead_stream)(DeviceStream*, void* stream) noexcept;
  Status (*synchronize)(DeviceStream*) noexcept;  // waits

  // Events.
  Status (*make_event)(Device*, DeviceEvent*&) noexcept;
  void (*free_event)(DeviceEvent*) noexcept;
  Status (*record)(DeviceEvent*, DeviceStream*) noexcept;
  Status (*query)(DeviceEvent*, bool& done) noexcept;
  Status (*wait_event)(DeviceStream*, DeviceEvent*) noexcept;  // the stream waits, not the caller
  // Seconds between two events that have been reached.
  Status (*elapsed)(DeviceEvent* from, DeviceEvent* to, double& seconds) noexcept;

  // Memory. Pinned memory has the same address on host and device. allocate gives 256-byte alignment.
  Status (*allocate)(Device*, std::size_t bytes, void*& p) noexcept;
  void (*free)(Device*, void* p) noexcept;
  Status (*allocate_pinned)(Device*, std::size_t bytes, void*& p) noexcept;
  void (*free_pinned)(Device*, void* p) noexcept;
  // Between any two kinds of memory, in stream order. Pageable host memory may make it wait.
  Status (*copy)(DeviceStream*, void* to, const void* from, std::size_t bytes) noexcept;
  Status (*zero)(DeviceStream*, void* p, std::size_t bytes) noexcept;

  // A launcher into the stream. The first error of its launches is what launch_error gives, and forgets.
  kernels::Launcher (*launcher)(DeviceStream*) noexcept;
  Status (*launch_error)(DeviceStream*) noexcept;
};
inline constexpr std::uint32_t kDeviceApi = 1;

// The table, or null: no driver is mapped, MPIQ_CUDA=off, or libmpi_quant_cuda.so is not there. Looks again
// as long as there is no driver, which costs two loads and a comparison.
const DeviceApi* device_api() noexcept;

// Why device_api() is null although a driver is mapped and MPIQ_CUDA is not off; null if it is not, or
// nobody has asked yet. Lives for ever.
const char* device_unusable_reason() noexcept;

// Why the vectors of calls have been staged through host memory, as DeviceApi::no_kernels last told
// note_no_kernels; null if they were not. Lives for ever.
const char* staging_reason() noexcept;
void note_no_kernels(const char* why) noexcept;

// The one symbol of libmpi_quant_cuda.so, mpiq_cuda_api: its table for this version of it, or null with the
// reason, which lives for ever. The driver is mapped.
using CudaApi = const DeviceApi*(std::uint32_t version, const char** reason);

// Where p points; host without a table.
Result<Where> where(const void* p) noexcept;

}  // namespace mq
