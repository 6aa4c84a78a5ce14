// The launches of fft (fft.cuh).

#include "kernels/cuda/fft.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/cuda/rows.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

#include "kernels/codecs/fft_format-inl.hpp"

constexpr std::array<const char*, 2> kEncode{"fft_encode_f32", "fft_encode_f64"},
    kWalk{"fft_walk_f32", "fft_walk_f64"}, kDecode{"fft_decode_f32", "fft_decode_f64"};

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

template <class T>
struct FftRow {
  static constexpr std::size_t kType = sizeof(T) == 8;
  static constexpr std::uint32_t kNumbers = sizeof(FftNumbers<T>);

  static std::size_t chunks_of(std::size_t n, const Params& params) {
    const std::size_t chunk = FftParams(params).chunk;
    return (n + chunk - 1) / chunk;
  }
  // The chain, or where chunks begin on the wire; then the memory of each thread block, and its numbers.
  static std::size_t chain_bytes(std::size_t chunks) { return aligned(ChainState::bytes_of(chunks)); }
  static std::size_t memory_bytes(std::size_t chunks) { return aligned(chunks * sizeof(FftMemory<T>)); }
  static std::size_t scratch_bytes(std::size_t n, const Params& params) noexcept {
    const std::size_t chunks = chunks_of(n, params);
    return chain_bytes(chunks) + memory_bytes(chunks) + chunks * sizeof(FftNumbers<T>);
  }
  static FftSetting<T> setting_of(const FftParams& p, std::size_t n) {
    return {FloatRange<T>(p.range),
            static_cast<std::uint32_t>(p.bits),
            {static_cast<std::uint32_t>(p.most(p.chunk)), static_cast<std::uint32_t>(p.most(n % p.chunk))}};
  }
  // Where the memory is. Returns the shared memory that the kernel needs.
  template <class Args>
  static std::uint32_t place(Args& a, std::byte* scratch, std::size_t chunks, std::uint32_t least,
                             const DeviceShape& shape) {
    a.memory = reinterpret_cast<FftMemory<T>*>(scratch + chain_bytes(chunks));
    const std::uint32_t near = std::max(kNumbers, least);
    if (near + kSparseFixedShared <= shape.shared_bytes) return near;
    a.numbers = reinterpret_cast<FftNumbers<T>*>(scratch + chain_bytes(chunks) + memory_bytes(chunks));
    return least;
  }

  static void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
    const FftParams p(e.args.params);
    const std::size_t chunks = chunks_of(e.args.n, e.args.params);
    FftEncodeArgs<T> a{{},
                       static_cast<const std::byte*>(e.args.x),
                       static_cast<std::byte*>(e.args.residual),
                       e.args.n,
                       static_cast<std::uint32_t>(p.chunk),
                       e.args.feedback,
                       e.args.residual != nullptr,
                       nullptr,
                       nullptr,
                       setting_of(p, e.args.n)};
    a.wire = e.args.wire;
    a.encoded = e.encoded;
    a.state = reinterpret_cast<ChainState*>(e.scratch);
    a.blocks = static_cast<std::uint32_t>(chunks);
    const std::uint32_t shared = place(a, e.scratch, chunks, 0, e.shape);
    if (chunks != 1) begin_chain(a.state, a.encoded, a.blocks, launch);
    if (chunks > 0) launch(kEncode[kType], chunks, kFftThreads, shared, a);
  }

  static void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
    const FftParams p(d.args.params);
    const std::size_t chunks = chunks_of(d.args.n, d.args.params);
    FftDecodeArgs<T> a{{}, nullptr, nullptr, setting_of(p, d.args.n)};
    a.wire = d.args.wire;
    a.base = static_cast<const std::byte*>(d.args.base);
    a.x = static_cast<std::byte*>(d.args.x);
    a.malformed = d.malformed;
    a.wire_bytes = d.args.wire_bytes;
    a.n = d.args.n;
    a.block = static_cast<std::uint32_t>(p.chunk);
    a.blocks = static_cast<std::uint32_t>(chunks);
    a.most[0] = a.setting.most[0];
    a.most[1] = a.setting.most[1];
    const bool own_walk =
        chunks > 0 && chunks <= kOwnWalkBlocks;  // each thread block searches for its own chunk
    const std::uint32_t shared = place(a, d.scratch, chunks, own_walk ? kWalkShared : 0, d.shape);
    if (!own_walk) {
      a.offsets = reinterpret_cast<std::uint64_t*>(d.scratch);
      launch(kWalk[kType], 1, 256, kWalkShared, a);
    }
    if (chunks > 0) launch(kDecode[kType], chunks, kFftThreads, shared, a);
  }

  static constexpr DeviceOps kOps{&scratch_bytes, &encode, &decode};
};

}  // namespace
}  // namespace cuda

constinit const DeviceRow fft_device_row{"fft", {cuda::FftRow<float>::kOps, cuda::FftRow<double>::kOps}};

}  // namespace mq::kernels
