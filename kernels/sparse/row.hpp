// The DeviceRow of a codec that sends few elements of a block: SparseRow launches its kernels. A codec is a
// struct such as ThresholdSetting (ternary/device.cpp): the names of its kernels, and what they need.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cuda/rows.hpp"
#include "kernels/hd.hpp"
#include "kernels/sparse/device.hpp"

namespace mq::kernels::cuda {

// clang-format off
#include "kernels/sparse/keys-inl.hpp"
#include "kernels/ternary/format-inl.hpp"
#include "kernels/valued/format-inl.hpp"
#include "kernels/sparse/cutoff-inl.hpp"
// clang-format on

inline constexpr std::size_t kBinBytes = 8192;  // of a histogram of 11 bits
// Where there are many blocks: words per thread, and whether the elements stay in device memory.
inline constexpr std::size_t kManyWords = 4;
inline constexpr bool kManyAreFar = true;

// What an encode needs to know; each codec below derives it from its parameters. pool_bytes: room for a
// histogram, if one is needed, and for what is written to the wire at once.
struct Setting {
  std::size_t block = 0, pool_bytes = 0;
  std::uint32_t search = 0, separate = 0, format = 0;
  double value = 0;
  std::uint32_t kernel = 0;  // which of the codec's kEncode
};

inline std::uint32_t word_bytes(std::size_t block) { return 4 * padded_words(block); }
// One thread per word, from two warps to `most` threads.
inline std::uint32_t threads_of(std::size_t block, std::uint32_t most) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(block / 32, 64, most));
}

template <class T, class Q>
struct SparseRow {
  static constexpr int kType = sizeof(T) == 8;

  static std::size_t blocks_of(std::size_t n, const Params& params) {
    const std::size_t block = Q::template of<T>(params).block;
    return (n + block - 1) / block;
  }
  static std::size_t scratch_bytes(std::size_t n, const Params& params) noexcept {
    const std::size_t blocks = blocks_of(n, params);
    return std::max(ChainState::bytes_of(blocks), walk_bytes(blocks));
  }

  static void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
    const Params& params = e.args.params;
    const Setting setting = Q::template of<T>(params);
    const auto blocks = static_cast<std::uint32_t>(blocks_of(e.args.n, params));
    auto* const state = reinterpret_cast<ChainState*>(e.scratch);
    if (blocks != 1) begin_chain(state, e.encoded, blocks, launch);
    if (blocks == 0) return;
    SparseEncodeArgs a{};
    a.x = static_cast<const std::byte*>(e.args.x);
    a.residual = static_cast<std::byte*>(e.args.residual);
    a.wire = e.args.wire;
    a.encoded = e.encoded;
    a.state = state;
    a.n = e.args.n;
    a.block = static_cast<std::uint32_t>(setting.block);
    a.blocks = blocks;
    a.feedback = e.args.feedback;
    a.search = setting.search;
    a.separate = setting.separate;
    a.format = setting.format;
    a.pool_bytes = static_cast<std::uint32_t>((setting.pool_bytes + 15) / 16 * 16);
    a.value = setting.value;
    const std::size_t lengths[2]{setting.block, a.n % setting.block};
    for (int i = 0; i < 2; ++i) {
      a.k[i] = static_cast<std::uint32_t>(Q::share(lengths[i], params));
      a.most[i] = static_cast<std::uint32_t>(Q::most(lengths[i], params));
    }
    const std::uint32_t far = 3 * word_bytes(setting.block) + a.pool_bytes;
    const std::uint32_t near = far + 32 * padded_words(setting.block) * static_cast<std::uint32_t>(sizeof(T));
    // Many thread blocks fill the GPU best if they are small and keep only what they select.
    const bool small = Q::kKeeps && blocks >= 4 * e.shape.multiprocessors;
    const bool fits = near + kSparseFixedShared <= e.shape.shared_bytes && !(small && kManyAreFar);
    const std::uint32_t threads =
        threads_of(setting.block / (small ? kManyWords : 1), Q::kKeeps && !fits ? kFarThreads : Q::kThreads);
    if (Q::kKeeps && !fits) keep(a, far, e.shape);
    const std::uint32_t shared =
        fits ? near : std::max(far, a.kept_at + a.kept * static_cast<std::uint32_t>(sizeof(T)));
    launch(Q::kEncode[setting.kernel][kType][fits], blocks, threads, shared, a);
  }

  // Reserves room for up to an eighth of the values after the first `far` bytes, of a third of a
  // multiprocessor's memory at most.
  static void keep(SparseEncodeArgs& a, std::uint32_t far, const DeviceShape& shape) noexcept {
    const std::size_t share = shape.shared_bytes / 3;
    const std::size_t room = share - std::min<std::size_t>(share, far + 8 + kSparseFixedShared);
    a.kept = static_cast<std::uint32_t>(std::min<std::size_t>(a.block / 8, room / sizeof(T)));
    a.kept_at = (far + 7) / 8 * 8;
  }

  static void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
    const Params& params = d.args.params;
    const std::size_t block = Q::template of<T>(params).block;
    auto a = decode_args<SparseDecodeArgs>(d, block);
    a.most[0] = static_cast<std::uint32_t>(Q::most(block, params));
    a.most[1] = static_cast<std::uint32_t>(Q::most(d.args.n % block, params));
    launch_decode(Q::kWalk[kType], Q::kDecode[kType], a, a.blocks, threads_of(block, kDecodeThreads),
                  3 * word_bytes(block), d.scratch, launch);
  }

  static constexpr DeviceOps kOps{&scratch_bytes, &encode, &decode};
};

template <class Q>
constexpr std::array<DeviceOps, 2> kTypes{SparseRow<float, Q>::kOps, SparseRow<double, Q>::kOps};

}  // namespace mq::kernels::cuda
