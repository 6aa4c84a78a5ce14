// A codec's device row, as the library sees it: an encode or a decode is a list of kernel launches, made on
// the host. The kernels are in kernels/cuda/. The code that launches them (the CUDA driver, or the tests'
// emulator) and the code that orders them (the executor) need only this file. The host row gives the same
// wire, residuals and decoded values, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/bitmaps.hpp"
#include "kernels/codec.hpp"
#include "kernels/memory.hpp"

namespace mq::kernels {

// The name of a kernel in the image: one of cuda/names.hpp.
struct Kernel {
  const char* text = nullptr;
};

// One kernel over a grid of thread blocks. Every kernel takes one trivially copyable struct by value.
struct Launch {
  const char* kernel = nullptr;  // its name in the image; a constant, which is also identified by its address
  std::uint32_t grid = 1;        // thread blocks
  std::uint32_t block = 1;       // threads of a block, a multiple of 32
  std::uint32_t shared_bytes = 0;  // dynamic shared memory of a block
  // Of each run, one after the other; copied by the launcher before it returns.
  const void* args = nullptr;
  std::uint32_t args_bytes = 0;  // of a run: at most kMaxArgsBytes
  // How often the grid runs, each time with args of its own: at most most_runs(args_bytes). In any order, and
  // side by side.
  std::uint32_t runs = 1;
};
// All args are parameters of the kernel, which has 4 KiB of them.
inline constexpr std::uint32_t kMaxArgsBytes = 512, kArgsOfRuns = 4096;
constexpr std::uint32_t most_runs(std::uint32_t args_bytes) {
  return args_bytes <= kArgsOfRuns / 16 ? 16 : kArgsOfRuns / args_bytes;
}

// Where launches go: into a stream, which runs them in order. The launcher keeps errors.
struct Launcher {
  void* context = nullptr;
  void (*launch)(void* context, const Launch&) noexcept = nullptr;
  template <class Args>
  void operator()(Kernel kernel, std::size_t grid, std::uint32_t block, std::uint32_t shared_bytes,
                  const Args& args) const noexcept {
    static_assert(sizeof(Args) <= kMaxArgsBytes && std::is_trivially_copyable_v<Args>);
    Args copy = args;
#if defined(__GNUC__) && !defined(__clang__)
    __builtin_clear_padding(&copy);  // otherwise tests would take old bytes for pointers
#endif
    launch(context, {kernel.text, static_cast<std::uint32_t>(grid), block, shared_bytes, &copy, sizeof copy});
  }
};

// Properties of the device to which launches are fitted. They never change what is computed.
struct DeviceShape {
  std::uint32_t multiprocessors = 1;
  std::uint32_t shared_bytes = 48 << 10;  // available to a thread block, with permission
};

// The result of an encode, complete when the wire is. In memory that device and host can access. nonfinite
// and overflows must be 0 before the launch, because thread blocks may add to them.
struct DeviceEncoded {
  std::uint64_t bytes = 0, nonfinite = 0, overflows = 0;
};

// All pointers in args are device addresses. wire and encoded may be pinned host memory that is mapped into
// the device's addresses.
struct DeviceEncode {
  EncodeArgs args;
  DeviceEncoded* encoded = nullptr;
  std::byte* scratch = nullptr;  // scratch_bytes() bytes, 256-byte aligned
  DeviceShape shape;
};
struct DeviceDecode {
  DecodeArgs args;
  // Set to 1 if the wire is malformed, else not changed. In memory that device and host can access.
  std::uint32_t* malformed = nullptr;
  std::byte* scratch = nullptr;
  DeviceShape shape;
};

// The functions of a codec for one element type. They launch and do not wait. They are stateless. The scratch
// memory needs no initialisation, and the next launch in the same stream may use it again.
struct DeviceOps {
  std::size_t (*scratch_bytes)(std::size_t n, const Params&) noexcept;
  void (*encode)(const DeviceEncode&, const Launcher&) noexcept;
  void (*decode)(const DeviceDecode&, const Launcher&) noexcept;
  // decode reads each byte of the wire once, together with those beside it: the wire may as well be in pinned
  // host memory.
  bool reads_once = false;
};

// Copies bytes of pinned host memory to the device. `most`: the greatest number of bytes of any such copy
// that may become one launch with this one. Faster than a copy of the driver if there are many short ones.
void device_bring(void* to, const void* from, std::size_t bytes, std::size_t most, const Launcher&) noexcept;

// x[i] = x[i] / divisor, of f32 or f64, with the bits of the host's division (engine/mean.hpp).
void device_divide(void* x, std::size_t n, Element element, int divisor, const DeviceShape&,
                   const Launcher&) noexcept;

// Null if the codec has no device row, or not for these parameters.
const DeviceOps* device_ops(const Codec&, Element, const Params&) noexcept;

// The device version of kernels/convert.hpp: device addresses, any alignment. narrow: of v[i] / divisor, and
// the residual gets v[i] - divisor * half[i].
struct DeviceConvertOps {
  void (*widen)(const void* half, void* out, std::size_t n, const DeviceShape&, const Launcher&) noexcept;
  void (*narrow)(const void* v, void* half, void* residual, std::size_t n, int divisor, const DeviceShape&,
                 const Launcher&) noexcept;
};
const DeviceConvertOps* device_convert(Element half) noexcept;  // null for f32 and f64

// Writes the result of codec.measure(x, n, element, params), for x on the device, to *measured, which device
// and host can access; numbers that the codec does not use are not written. element: f32 or f64.
struct DeviceMeasureOps {
  std::size_t (*scratch_bytes)(std::size_t n, const Params&) noexcept;
  void (*measure)(const void* x, std::size_t n, const Params&, Measured* measured, std::byte* scratch,
                  const DeviceShape&, const Launcher&) noexcept;
};
// Null if the codec measures nothing, or has no device row for it.
const DeviceMeasureOps* device_measure(const Codec&, Element) noexcept;

// Memory rules on a device (kernels/memory.hpp). Every rule has these functions, whatever the codec. All
// pointers of a tile are device addresses. A tile may be of any length, and what before() would return is
// what the host's says of the same tile with n = 0.
enum class MemoryFunction : std::uint8_t { before, after, deliver, skip };
struct DeviceMemory {
  const MemoryRule* rule = nullptr;
  Element element = Element::f32;
  DeviceShape shape;

  // Nothing if MemoryOps has no such function of the rule. sum: of deliver.
  void run(MemoryFunction function, const MemoryTile& tile, void* sum, const Launcher& launch) const noexcept;
  // MemoryOps::squares and distances of the parts of a rank's vector of n elements of type `element`, one
  // after the other (memory_sums.hpp). The sums are in memory that device and host can access. arrays: as in
  // a tile.
  void squares(const void* x, std::size_t n, double scale, double* sums,
               const Launcher& launch) const noexcept;
  void distances(const MemoryTile& tile, double scale, Distances* sums,
                 const Launcher& launch) const noexcept;
  // Joins two messages, which are complete when the launch begins, to a payload: the length of the first in 8
  // bytes, the first, which is there already, and `second`, a multiple of 4; null: it is there, too. most:
  // the greatest length of the second.
  void join(std::byte* payload, const std::byte* second, std::size_t most, const DeviceEncoded* first_encoded,
            const DeviceEncoded* second_encoded, DeviceEncoded* encoded,
            const Launcher& launch) const noexcept;
  // x = base, or zeros if that is null: what an empty message decodes to.
  void nothing(const void* base, void* x, std::size_t bytes, const Launcher& launch) const noexcept;
};

// The device version of kernels/bitmaps.hpp. The functions launch and do not wait. All pointers are device
// addresses; indices are 8-byte aligned, everything else has any alignment. Values and indices after the n-th
// are not changed. scratch has scratch_bytes(words) bytes, 256-byte aligned.
struct DeviceBitmapOps {
  std::size_t (*scratch_bytes)(std::size_t words) noexcept;
  void (*make)(const std::uint64_t* indices, std::size_t n, std::uint64_t base, std::byte* bitmap,
               std::size_t words, const DeviceShape&, const Launcher&) noexcept;
  // count: in memory that device and host can access.
  void (*count)(const std::byte* bitmap, std::size_t words, std::uint64_t* count, const DeviceShape&,
                const Launcher&) noexcept;
  void (*list)(const std::byte* bitmap, std::size_t words, std::uint64_t base, std::uint64_t* indices,
               std::size_t n, std::byte* scratch, const Launcher&) noexcept;
  void (*fold)(Fold, void* into, const std::byte* bitmap, std::size_t words, const std::byte* values,
               std::size_t n, std::byte* scratch, const Launcher&) noexcept;
  void (*collect)(const void* from, const std::byte* bitmap, std::size_t words, std::uint64_t base,
                  std::uint64_t* indices, void* values, std::size_t n, std::byte* scratch,
                  const Launcher&) noexcept;
};
// element: f32 or f64.
const DeviceBitmapOps& device_bitmaps(Element element) noexcept;

}  // namespace mq::kernels
