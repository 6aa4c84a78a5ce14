// Arguments of the kernels of the sparse codecs, as their launch lists (sparse_rows.cpp) and the kernels see
// them. All pointers are device addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels::cuda {

// In scratch, cleared by mq_sparse_begin: who encodes which block next, and where its wire begins.
struct SparseState {
  std::uint64_t bytes, nonfinite;
  std::uint32_t ticket, done;
  MQ_HD std::uint64_t* chain() {
    return reinterpret_cast<std::uint64_t*>(this + 1);
  }  // one a block; see chain.cuh
};

struct SparseBeginArgs {
  SparseState* state;
  DeviceEncoded* encoded;  // written here if there are no blocks
  std::uint32_t blocks;
};

struct SparseEncodeArgs {
  const std::byte* x;
  std::byte* residual;
  std::byte* wire;
  DeviceEncoded* encoded;
  SparseState* state;
  std::uint64_t n;
  std::uint32_t block, blocks;
  Feedback feedback;
  std::uint32_t search;    // of adaptive, or the select of topk
  std::uint32_t separate;  // adaptive: signs
  std::uint32_t format;
  std::uint32_t pool_bytes;     // see SparseMemory in sparse_block.cuh
  std::uint32_t kept, kept_at;  // values of candidates that there is room for, and where
  double value;                 // tau of threshold, pi of adaptive
  std::uint32_t k[2];           // how many are asked for: of a whole block, and of the last if it is shorter
  std::uint32_t most[2];        // topk: and how many are sent at most
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
};
inline constexpr std::uint64_t kNoBlock = ~std::uint64_t{0};

// The measured tau of threshold. counts: two times kProposeBins, behind the state.
inline constexpr std::uint32_t kProposeBins = 2048;
struct ProposeState {
  std::uint64_t prefix, k;
  std::uint32_t none, unused;
  std::uint64_t count[2 * kProposeBins];
};
struct ProposeArgs {
  const std::byte* x;
  std::uint64_t n, k;
  ProposeState* state;
  double* proposal;
  std::uint32_t level;
};

// Shared memory that every kernel has besides the dynamic part, at most.
inline constexpr std::uint32_t kSparseFixedShared = 2048;
inline constexpr std::uint32_t kSparseThreads = 1024;
inline constexpr std::uint32_t kWalkWindow =
    16384;  // bytes of wire that the search for headers reads at once
inline constexpr std::uint32_t kOwnWalkBlocks = 32;  // so few are searched for by each thread block itself

}  // namespace mq::kernels::cuda
