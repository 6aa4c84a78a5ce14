// The arguments of the sparse codecs' kernels, for the launch lists (row.hpp) and the kernels. All
// pointers are device addresses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/chain.hpp"
#include "kernels/cuda/names.hpp"

namespace mq::kernels::cuda {

// Room for the bits of a block, in words of 32 elements. A warp reads up to four words at once
// (Block::read_packs).
constexpr std::uint32_t padded_words(std::size_t block) {
  return static_cast<std::uint32_t>((block + 127) / 128 * 4);
}

// One thread block for each block of the codec.
struct SparseEncodeArgs : ChainedArgs {
  const std::byte* x;
  std::byte* residual;
  std::uint64_t n;
  std::uint32_t block;
  Feedback feedback;
  std::uint32_t search;    // of adaptive; for topk its select
  std::uint32_t separate;  // adaptive: signs
  std::uint32_t format;
  std::uint32_t pool_bytes;     // see Block in block.cuh
  std::uint32_t kept, kept_at;  // room for values of candidates, and its offset
  double value;                 // tau of threshold, pi of adaptive
  std::uint32_t k[2];     // requested number of elements: for a whole block, and for a shorter last block
  std::uint32_t most[2];  // topk: largest number of elements sent
};

// A part of a long wire, as the survey of walk.cuh sees it: the blocks that begin in it.
struct Segment {
  std::uint64_t entry, exit;    // where the first of them begins, if there is one, and where the last ends
  std::uint32_t count, number;  // how many; the number of the first, once it is known to be right
};

struct SparseDecodeArgs {
  const std::byte* wire;
  const std::byte* base;
  std::byte* x;
  std::uint32_t* malformed;
  std::uint64_t* offsets;  // in scratch: where each block begins on the wire, or kNoBlock; null: unknown
  std::uint64_t wire_bytes, n;
  std::uint32_t block, blocks;
  std::uint32_t most[2];
  std::uint32_t segment_count;  // 0: the wire is walked by one thread block
  std::uint64_t segment_bytes;
  Segment* segments;  // in scratch
};
inline constexpr std::uint64_t kNoBlock = ~std::uint64_t{0};
inline constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};

// The state of measuring tau for threshold. count: two histograms of kMeasureBins.
inline constexpr std::uint32_t kMeasureBins = 2048;
struct MeasureState {
  std::uint64_t prefix, k;
  std::uint32_t none, unused;
  std::uint64_t count[2 * kMeasureBins];
};
struct MeasureArgs {
  const std::byte* x;
  std::uint64_t n, k;
  MeasureState* state;
  double* tau;
  std::uint32_t level;
};

// Upper bound of the static shared memory of every kernel.
inline constexpr std::uint32_t kSparseFixedShared = 2048;
inline constexpr std::uint32_t kSparseThreads = 1024;
inline constexpr std::uint32_t kSelectThreads = 512;  // of threshold, adaptive and topk, encode
inline constexpr std::uint32_t kFarThreads = 384;     // the same, where elements stay in device memory
inline constexpr std::uint32_t kDecodeThreads = 512;  // fewer, because more blocks then wait at the same time
inline constexpr std::uint32_t kWalkWindow = 16384;   // bytes of wire read at once to find headers
inline constexpr std::uint32_t kWalkShared = kWalkWindow + 16;
inline constexpr std::uint32_t kOwnWalkBlocks = 32;  // of so few, each block searches itself

// Enough blocks for each segment that few begin outside it, and enough segments to fill a GPU.
inline std::size_t segments_of(std::size_t blocks) { return std::min<std::size_t>(blocks / 8, 1024); }
// The scratch memory of launch_walk.
inline std::size_t walk_bytes(std::size_t blocks) {
  return blocks * sizeof(std::uint64_t) + segments_of(blocks) * sizeof(Segment);
}
// Survey, walk and list find the blocks of a long wire, in this order (walk.cuh); then decode runs. Without
// survey and list one thread block walks through the whole wire.
struct DecodeNames {
  NamesByType survey, walk, list, decode;
};
// The kernels of MQ_SPARSE_DECODES(family, ...).
#define MQ_DECODE_NAMES(family)                                                \
  mq::kernels::cuda::DecodeNames {                                             \
    MQ_NAMES_BY_TYPE(family##_survey, ), MQ_NAMES_BY_TYPE(family##_walk, ),    \
        MQ_NAMES_BY_TYPE(family##_list, ), MQ_NAMES_BY_TYPE(family##_decode, ) \
  }
// Finds the offsets of a wire's blocks, for the decode that is launched next.
template <class T, class Args>
void launch_walk(const DecodeNames& kernels, Args& a, std::byte* scratch, const Launcher& launch) {
  const Kernel survey = name_for<T>(kernels.survey), list = name_for<T>(kernels.list);
  a.offsets = reinterpret_cast<std::uint64_t*>(scratch);
  a.segments = reinterpret_cast<Segment*>(a.offsets + a.blocks);
  a.segment_count = survey.text == nullptr ? 0 : static_cast<std::uint32_t>(segments_of(a.blocks));
  if (a.segment_count > 0) a.segment_bytes = (a.wire_bytes + a.segment_count - 1) / a.segment_count;
  if (a.segment_count > 0) launch(survey, a.segment_count, 256, kWalkShared, a);
  launch(name_for<T>(kernels.walk), 1, 256, kWalkShared, a);
  if (a.segment_count > 0) launch(list, a.segment_count, 256, kWalkShared, a);
}

// What all decodes know of a wire whose blocks have `block` elements.
template <class Args>
Args decode_args(const DeviceDecode& d, std::size_t block) {
  Args a{};
  a.wire = d.args.wire;
  a.base = static_cast<const std::byte*>(d.args.base);
  a.x = static_cast<std::byte*>(d.args.x);
  a.malformed = d.malformed;
  a.wire_bytes = d.args.wire_bytes;
  a.n = d.args.n;
  a.block = static_cast<std::uint32_t>(block);
  a.blocks = static_cast<std::uint32_t>((a.n + block - 1) / block);
  return a;
}
// Decodes with `grid` thread blocks that need `shared` bytes. Of few blocks, each thread block searches for
// its own; otherwise the blocks are found first.
template <class T, class Args>
void launch_decode(const DecodeNames& kernels, Args& a, std::size_t grid, std::uint32_t threads,
                   std::uint32_t shared, std::byte* scratch, const Launcher& launch) {
  if (a.blocks > 0 && a.blocks <= kOwnWalkBlocks)
    shared = std::max(shared, kWalkShared);
  else
    launch_walk<T>(kernels, a, scratch, launch);
  if (a.blocks > 0) launch(name_for<T>(kernels.decode), grid, threads, shared, a);
}

}  // namespace mq::kernels::cuda
