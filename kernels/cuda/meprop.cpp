// The launches of meprop (meprop.cuh).

#include "kernels/cuda/meprop.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cuda/rows.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

#include "kernels/codecs/meprop_format-inl.hpp"

static_assert(kMostLines == MePropParams::kMostLines);

constexpr std::array<const char*, 2> kEncode{"meprop_encode_f32", "meprop_encode_f64"},
    kWalk{"meprop_walk_f32", "meprop_walk_f64"}, kDecode{"meprop_decode_f32", "meprop_decode_f64"};

std::size_t blocks_of(std::size_t n, const Params& params) {
  const std::size_t block = MePropParams(params).block();
  return n / block + (n % block != 0);
}

// One thread for eight elements, from two warps on.
std::uint32_t threads_of(std::uint32_t block) {
  return std::clamp<std::uint32_t>(block / 8 / 32 * 32, 64, kMePropThreads);
}

template <class T>
struct MePropRow {
  static constexpr std::size_t kType = sizeof(T) == 8;
  // SentLines: norms, bits, lines, their number.
  static constexpr std::uint32_t kShared =
      kMostLines * (sizeof(T) + sizeof(std::uint16_t)) + kMostLines / 8 + 16;

  static std::size_t scratch_bytes(std::size_t n, const Params& params) noexcept {
    return ChainState::bytes_of(blocks_of(n, params));
  }
  template <class Args>
  static void set_sizes(Args& a, std::size_t n, const Params& params) {
    const MePropParams p(params);
    a.n = n;
    a.block = static_cast<std::uint32_t>(p.block());
    a.blocks = static_cast<std::uint32_t>(blocks_of(n, params));
    a.line = static_cast<std::uint32_t>(p.line);
    a.most[0] = static_cast<std::uint32_t>(p.most(p.block()));
    a.most[1] = static_cast<std::uint32_t>(p.most(n % p.block()));
  }

  static void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
    MePropEncodeArgs a{};
    set_sizes(a, e.args.n, e.args.params);
    a.wire = e.args.wire;
    a.encoded = e.encoded;
    a.state = reinterpret_cast<ChainState*>(e.scratch);
    a.x = static_cast<const std::byte*>(e.args.x);
    a.residual = static_cast<std::byte*>(e.args.residual);
    a.feedback = e.args.feedback;
    a.keeps = e.args.residual != nullptr;
    if (a.blocks != 1) begin_chain(a.state, a.encoded, a.blocks, launch);
    if (a.blocks > 0) launch(kEncode[kType], a.blocks, threads_of(a.block), kShared, a);
  }

  static void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
    MePropDecodeArgs a{};
    set_sizes(a, d.args.n, d.args.params);
    a.wire = d.args.wire;
    a.base = static_cast<const std::byte*>(d.args.base);
    a.x = static_cast<std::byte*>(d.args.x);
    a.malformed = d.malformed;
    a.wire_bytes = d.args.wire_bytes;
    const bool own_walk =
        a.blocks > 0 && a.blocks <= kOwnWalkBlocks;  // each thread block searches for its own block
    if (!own_walk) {
      a.offsets = reinterpret_cast<std::uint64_t*>(d.scratch);
      launch(kWalk[kType], 1, 256, kWalkShared, a);
    }
    if (a.blocks > 0)
      launch(kDecode[kType], a.blocks, threads_of(a.block),
             own_walk ? std::max(kShared, kWalkShared) : kShared, a);
  }

  static constexpr DeviceOps kOps{&scratch_bytes, &encode, &decode};
};

bool serves(const Params& params) noexcept { return MePropParams(params).block() <= kLongestMeProp; }

}  // namespace
}  // namespace cuda

constinit const DeviceRow meprop_device_row{
    "meprop", {cuda::MePropRow<float>::kOps, cuda::MePropRow<double>::kOps}, {}, &cuda::serves};

}  // namespace mq::kernels
