// What the library knows of a codec's device row: an encode or a decode as a list of kernel launches, made
// on the host. Separate from kernels/cuda/, which has the kernels themselves, so that whoever launches them
// (the CUDA driver, or the tests' emulator) and whoever orders them (the executor) need this file only. The
// wire is that of the host row, bit for bit, and so are residuals and decoded values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/bitmaps.hpp"
#include "kernels/codec.hpp"

namespace mq::kernels {

// One kernel over a grid of thread blocks. Every kernel takes one trivially copyable struct by value.
struct Launch {
  const char* kernel = nullptr;    // its name in the image; a constant, known by its address too
  std::uint32_t grid = 1;          // thread blocks
  std::uint32_t block = 1;         // threads a block, a multiple of 32
  std::uint32_t shared_bytes = 0;  // dynamic shared memory of a block
  const void* args = nullptr;      // copied by the launcher before it returns
  std::uint32_t args_bytes = 0;    // at most kMaxArgsBytes
};
inline constexpr std::uint32_t kMaxArgsBytes = 512;

// Where launches go: into a stream, which runs them in order. An error is the launcher's to remember.
struct Launcher {
  void* context = nullptr;
  void (*launch)(void* context, const Launch&) noexcept = nullptr;
  template <class Args>
  void operator()(const char* kernel, std::size_t grid, std::uint32_t block, std::uint32_t shared_bytes,
                  const Args& args) const noexcept {
    static_assert(sizeof(Args) <= kMaxArgsBytes && std::is_trivially_copyable_v<Args>);
    Args copy = args;
#if defined(__GNUC__) && !defined(__clang__)
    __builtin_clear_padding(&copy);  // or tests take what is left there for pointers
#endif
    launch(context, {kernel, static_cast<std::uint32_t>(grid), block, shared_bytes, &copy, sizeof copy});
  }
};

// What launches are fitted to; never what they compute.
struct DeviceShape {
  std::uint32_t multiprocessors = 1;
  std::uint32_t shared_bytes = 48 << 10;  // that a thread block may have, once allowed to
};

// Of an encode, complete with the wire. In memory that device and host can use. nonfinite: 0 when the encode
// is launched, for thread blocks may add to it.
struct DeviceEncoded {
  std::uint64_t bytes, nonfinite;
};

// All pointers of args are device addresses; wire and encoded may be pinned host memory mapped into the
// device's addresses.
struct DeviceEncode {
  EncodeArgs args;
  DeviceEncoded* encoded = nullptr;
  std::byte* scratch = nullptr;  // scratch_bytes(), 256-byte aligned
  DeviceShape shape;
};
struct DeviceDecode {
  DecodeArgs args;
  // Set to 1 if the wire is malformed, else left alone. In memory that device and host can use.
  std::uint32_t* malformed = nullptr;
  std::byte* scratch = nullptr;
  DeviceShape shape;
};

// The functions of a codec for one element type: they launch and do not wait. Stateless; scratch needs no
// initialization and may be used again by the next launch of the same stream.
struct DeviceOps {
  std::size_t (*scratch_bytes)(std::size_t n, const Params&) noexcept;
  void (*encode)(const DeviceEncode&, const Launcher&) noexcept;
  void (*decode)(const DeviceDecode&, const Launcher&) noexcept;
};

// Null if the codec has no device row.
const DeviceOps* device_ops(const Codec&, Element) noexcept;

// The device's side of kernels/convert.hpp: device addresses, any alignment.
struct DeviceConvertOps {
  void (*widen)(const void* half, void* out, std::size_t n, const DeviceShape&, const Launcher&) noexcept;
  void (*narrow)(const void* v, void* half, void* residual, std::size_t n, const DeviceShape&,
                 const Launcher&) noexcept;
};
const DeviceConvertOps* device_convert(Element half) noexcept;  // null for f32 and f64

// What codec.propose(x, n, element, params) gives, for a device x: written to *proposal, which device and
// host can use. Null: the codec has no such parameter. element: f32 or f64.
struct DeviceProposeOps {
  std::size_t (*scratch_bytes)(std::size_t n, const Params&) noexcept;
  void (*propose)(const void* x, std::size_t n, const Params&, double* proposal, std::byte* scratch,
                  const DeviceShape&, const Launcher&) noexcept;
};
const DeviceProposeOps* device_propose(const Codec&, Element) noexcept;

// The device's side of kernels/bitmaps.hpp: device addresses, indices 8-byte aligned, all else at any
// alignment; they launch and do not wait. Values and indices behind the n-th are left alone. scratch:
// scratch_bytes(words), 256-byte aligned.
struct DeviceBitmapOps {
  std::size_t (*scratch_bytes)(std::size_t words) noexcept;
  void (*make)(const std::uint64_t* indices, std::size_t n, std::uint64_t base, std::byte* bitmap,
               std::size_t words, const DeviceShape&, const Launcher&) noexcept;
  // count: in memory that device and host can use.
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
