// The launches of adacomp (adacomp.cuh).

#include "kernels/cuda/adacomp.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "kernels/cuda/rows.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

// clang-format off
#include "kernels/codecs/keys-inl.hpp"
#include "kernels/codecs/ternary_format-inl.hpp"
#include "kernels/codecs/adacomp_format-inl.hpp"
// clang-format on

constexpr std::array<const char*, 2> kEncode{"adacomp_encode_f32", "adacomp_encode_f64"},
    kDecode{"adacomp_decode_f32", "adacomp_decode_f64"};
constexpr std::array<WalkKernels, 2> kWalk{
    WalkKernels{"adacomp_survey_f32", "adacomp_walk_f32", "adacomp_list_f32"},
    WalkKernels{"adacomp_survey_f64", "adacomp_walk_f64", "adacomp_list_f64"}};

std::uint32_t word_bytes(std::size_t block) { return 4 * padded_words(block); }
std::uint32_t threads_of(std::size_t block, std::uint32_t most) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(block / 32 / 32 * 32, 64, most));
}

template <class T>
struct AdaCompRow {
  static constexpr std::size_t kType = sizeof(T) == 8;

  static std::size_t blocks_of(std::size_t n, const Params& params) {
    const std::size_t block = AdaCompParams(params).block;
    return (n + block - 1) / block;
  }
  static std::size_t state_bytes(std::size_t n, const Params& params) {
    return (ChainState::bytes_of(blocks_of(n, params)) + 7) / 8 * 8;
  }
  static std::size_t scratch_bytes(std::size_t n, const Params& params) noexcept {
    const std::size_t most = AdaCompParams(params).bins(n) * sizeof(std::uint64_t);
    return std::max(state_bytes(n, params) + most, walk_bytes(blocks_of(n, params)));
  }

  static void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
    const AdaCompParams p(e.args.params);
    AdaCompEncodeArgs a{};
    a.x = static_cast<const std::byte*>(e.args.x);
    a.residual = static_cast<std::byte*>(e.args.residual);
    a.wire = e.args.wire;
    a.encoded = e.encoded;
    a.state = reinterpret_cast<ChainState*>(e.scratch);
    a.n = e.args.n;
    a.block = static_cast<std::uint32_t>(p.block);
    a.blocks = static_cast<std::uint32_t>(blocks_of(e.args.n, e.args.params));
    a.feedback = e.args.feedback;
    a.most = reinterpret_cast<std::uint64_t*>(e.scratch + state_bytes(e.args.n, e.args.params));
    a.params = e.args.params;
    const std::size_t payload = sizeof(AdaCompHeader<T>) + sizeof(T) + dense_bytes(p.block) + 16;
    const std::size_t pool = std::max(payload, kAdaCompTerms * sizeof(double));
    a.pool_bytes = static_cast<std::uint32_t>((pool + 15) / 16 * 16);
    // The pool begins behind the words, at a multiple of 4; the terms of the mean are at one of 8.
    const std::uint32_t words = 3 * word_bytes(p.block);
    if (a.blocks != 1) begin_chain(a.state, a.encoded, a.blocks, launch);
    if (a.blocks > 0)
      launch(kEncode[kType], a.blocks, threads_of(p.block, kSparseThreads), words + a.pool_bytes + 8, a);
  }

  static void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
    const AdaCompParams p(d.args.params);
    AdaCompDecodeArgs a{};
    a.wire = d.args.wire;
    a.base = static_cast<const std::byte*>(d.args.base);
    a.x = static_cast<std::byte*>(d.args.x);
    a.malformed = d.malformed;
    a.wire_bytes = d.args.wire_bytes;
    a.n = d.args.n;
    a.block = static_cast<std::uint32_t>(p.block);
    a.blocks = static_cast<std::uint32_t>(blocks_of(d.args.n, d.args.params));
    a.params = d.args.params;
    std::uint32_t shared = 3 * word_bytes(p.block);
    if (a.blocks > 0 && a.blocks <= kOwnWalkBlocks)
      shared = std::max(shared, kWalkShared);  // each thread block searches for its own block
    else
      launch_walk(kWalk[kType], a, d.scratch, launch);
    if (a.blocks > 0) launch(kDecode[kType], a.blocks, threads_of(p.block, kDecodeThreads), shared, a);
  }

  static constexpr DeviceOps kOps{&scratch_bytes, &encode, &decode};
};

}  // namespace
}  // namespace cuda

constinit const DeviceRow adacomp_device_row{"adacomp",
                                             {cuda::AdaCompRow<float>::kOps, cuda::AdaCompRow<double>::kOps}};

}  // namespace mq::kernels
