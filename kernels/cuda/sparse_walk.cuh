// Finds where the blocks of a sparse wire begin. Headers contain the lengths of their blocks, so blocks are
// found one after the other. The thread block reads windows of the wire into shared memory, and one warp
// walks through them. What can be checked with a header alone is checked here. Nothing after the wire is
// read.
#pragma once

#include "kernels/cuda/sparse_block.cuh"

namespace mq::kernels::cuda {

// Four bytes of shared memory at any address, with readable memory after them.
MQ_DEVICE std::uint32_t near_word(const std::byte* p) {
  const auto phase = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p) % 4);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(p - phase);
  return static_cast<std::uint32_t>((words[0] | static_cast<std::uint64_t>(words[1]) << 32) >> (8 * phase));
}

// A length says how long the block of n elements at p is; 0 if it is malformed. `left` bytes remain on the wire, and at
// least min(left, head(n)) of them can be read. Called by whole warps.
template <class T>
struct TernaryLength {
  static MQ_DEVICE std::uint32_t head(std::uint32_t) { return sizeof(TernaryHeader<T>); }
  static MQ_DEVICE std::uint64_t of(const std::byte* p, std::uint64_t left, std::uint32_t, std::uint32_t) {
    constexpr std::uint64_t kHeader = sizeof(TernaryHeader<T>);
    if (left < kHeader) return 0;
    const std::uint32_t bytes = near_word(p + 4);  // decode_ternary checks the rest
    return bytes <= left - kHeader ? kHeader + bytes : 0;
  }
};
template <class T>
struct ValuedLength {
  static MQ_DEVICE std::uint32_t head(std::uint32_t) { return sizeof(ValuedHeader); }
  static MQ_DEVICE std::uint64_t of(const std::byte* p, std::uint64_t left, std::uint32_t n,
                                    std::uint32_t most) {
    constexpr std::uint64_t kHeader = sizeof(ValuedHeader);
    if (left < kHeader) return 0;
    const std::uint32_t bytes = near_word(p + 4);
    return bytes <= left - kHeader && bytes <= valued_bound<T>(n, most) ? kHeader + bytes : 0;
  }
};
template <class T>
struct ZerosLength {
  static MQ_DEVICE std::uint32_t head(std::uint32_t n) { return 4 + top_bytes(n); }
  static MQ_DEVICE std::uint64_t of(const std::byte* p, std::uint64_t left, std::uint32_t n, std::uint32_t) {
    if (left < 4) return 0;
    const std::uint32_t count = near_word(p);
    left -= 4;
    const std::uint64_t values = std::uint64_t{count} * sizeof(T), top = count == n ? 0 : top_bytes(n);
    if (count > n || left < top + values) return 0;
    std::uint32_t groups = 0;
    for (std::uint32_t i = lane(); i < top; i += 32)
      groups += count_ones(static_cast<std::uint32_t>(p[4 + i]));
    groups = warp_sum(groups);
    if (left - top - values < std::uint64_t{4} * groups) return 0;
    return 4 + top + values + std::uint64_t{4} * groups;
  }
};

// A part of the wire in shared memory: at most kWalkWindow bytes, and less for small thread blocks.
struct Window {
  std::uint64_t begin, end;  // on the wire
  const std::byte* at;       // address of `begin`
  MQ_DEVICE Window(const SparseDecodeArgs& a, std::uint64_t from)
      : begin(from), end(smaller<std::uint64_t>(from + smaller(kWalkWindow, 64 * threads()), a.wire_bytes)) {
    const std::byte* const source = a.wire + begin;
    const auto phase = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(source) % 4);
    std::byte* const to = dynamic_shared() + phase;
    const auto bytes = static_cast<std::uint32_t>(end - begin), head = smaller((4 - phase) % 4, bytes);
    const std::uint32_t whole = (bytes - head) / 4, rest = (bytes - head) % 4;
    in_batches<8>(
        thread(), whole, threads(),
        [&](std::uint32_t j) { return *reinterpret_cast<const std::uint32_t*>(source + head + 4 * j); },
        [&](std::uint32_t j, std::uint32_t v) { *reinterpret_cast<std::uint32_t*>(to + head + 4 * j) = v; });
    if (thread() < head) to[thread()] = source[thread()];
    if (thread() < rest) to[head + 4 * whole + thread()] = source[head + 4 * whole + thread()];
    at = to;
    barrier();
  }
};

// How far a walk came.
struct Walked {
  std::uint64_t at;  // where the next block begins
  std::uint32_t number, malformed;
};
// Finds the first `blocks` blocks. For each of them, until one is malformed, one lane calls found(number,
// offset), where the offset is kNoBlock if it is malformed. All threads must call it.
template <class Length, class Found>
MQ_DEVICE Walked walk_to(const SparseDecodeArgs& a, std::uint32_t blocks, const Found& found,
                         const Length& length_of = {}) {
  auto& s = shared<Walked>();
  if (thread() == 0) s = {0, 0, 0};
  barrier();
  while (s.number < blocks && s.malformed == 0) {
    const Window window(a, s.at);
    if (warp() == 0) {
      std::uint64_t at = window.begin, length = 1;
      std::uint32_t number = s.number;
      for (; number < blocks && length != 0; at += length, number += length != 0) {
        const std::uint64_t begin = std::uint64_t{number} * a.block;
        const auto n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.block, a.n - begin));
        if (at > window.end || (at + length_of.head(n) > window.end && window.end < a.wire_bytes)) break;
        length = length_of.of(window.at + (at - window.begin), a.wire_bytes - at, n, a.most[n < a.block]);
        if (lane() == 0) found(number, length != 0 ? at : kNoBlock);
      }
      warp_sync();
      if (lane() == 0) s = {at, number, length == 0};
    }
    barrier();
  }
  return s;
}

// Runs as one thread block, before a decode of many blocks.
template <class Length>
MQ_DEVICE void walk(const SparseDecodeArgs& a, const Length& length = {}) {
  const Walked walked = walk_to<Length>(
      a, a.blocks, [&](std::uint32_t number, std::uint64_t at) { a.offsets[number] = at; }, length);
  for (std::uint64_t i = walked.number + thread(); i < a.blocks; i += threads()) a.offsets[i] = kNoBlock;
  if (thread() == 0 && walked.at != a.wire_bytes) *a.malformed = 1;
}

// Where this thread block's block begins. If it is kNoBlock, *malformed is set. If there are few blocks, each
// thread block walks by itself, and the last one checks that the wire ends after its block. All threads must
// call it.
template <class Length>
MQ_DEVICE std::uint64_t find_block(const SparseDecodeArgs& a, const Length& length = {}) {
  std::uint64_t offset = 0;
  if (a.offsets != nullptr) {
    offset = a.offsets[block()];
  } else {
    auto& own = shared<std::uint64_t, 102>();
    if (thread() == 0) own = kNoBlock;
    const Walked walked = walk_to<Length>(
        a, block() + 1,
        [&](std::uint32_t number, std::uint64_t at) {
          if (number == block()) own = at;
        },
        length);
    offset = own;
    if (thread() == 0 && block() + 1 == a.blocks && walked.at != a.wire_bytes) *a.malformed = 1;
  }
  if (offset == kNoBlock && thread() == 0) *a.malformed = 1;
  return offset;
}

}  // namespace mq::kernels::cuda
