// Finds where the blocks of a sparse wire begin. Headers contain the lengths of their blocks, so blocks are
// found one after the other. The thread block reads windows of the wire into shared memory, and one warp
// walks through them. What can be checked with a header alone is checked here. Nothing after the wire is
// read.
//
// A long wire is cut into segments, which are walked side by side, by three kernels. `survey` guesses where
// the first block of each segment begins: at the first bytes that look like a header. It walks from there to
// the end of the segment. `walk` accepts the guesses that begin where the segment before ends, so they are
// what one walk over the whole wire would find. It walks through all other segments itself. `list` then
// writes the offsets of the accepted segments. A wrong guess costs time and is never decoded.
#pragma once

#include "kernels/sparse/block.cuh"

namespace mq::kernels::cuda {

// Four bytes of shared memory at any address, with readable memory after them.
MQ_DEVICE std::uint32_t near_word(const std::byte* p) {
  const auto phase = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p) % 4);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(p - phase);
  return static_cast<std::uint32_t>((words[0] | static_cast<std::uint64_t>(words[1]) << 32) >> (8 * phase));
}

// A length says how long the block of n elements at p is; 0 if it is malformed. `left` bytes remain on the
// wire, and at least min(left, head(n)) of them can be read. Called by whole warps. For a survey it also says
// whether the kLook bytes at p look like the header of a block of n elements. Called by single threads.
template <class T>
struct TernaryLength {
  static MQ_DEVICE std::uint32_t head(std::uint32_t) { return sizeof(TernaryHeader<T>); }
  static MQ_DEVICE std::uint64_t of(const std::byte* p, std::uint64_t left, std::uint32_t, std::uint32_t) {
    constexpr std::uint64_t kHeader = sizeof(TernaryHeader<T>);
    if (left < kHeader) return 0;
    const std::uint32_t bytes = near_word(p + 4);  // decode_ternary checks the rest
    return bytes <= left - kHeader ? kHeader + bytes : 0;
  }
  static constexpr std::uint32_t kLook = 8;
  static MQ_DEVICE bool likely(const std::byte* p, std::uint32_t n, std::uint32_t) {
    const std::uint32_t format_count = near_word(p), count = format_count & 0xffffff,
                        bytes = near_word(p + 4);
    const auto format = static_cast<TernaryFormat>(format_count >> 24);
    if (format < TernaryFormat::gap || format > TernaryFormat::marked || count > n) return false;
    if (format == TernaryFormat::gap) return bytes >= count && bytes <= dense_bytes(n);
    if (format < TernaryFormat::dense) return bytes == sparse_bytes(format, count, 0);
    return bytes == dense_bytes(n) + (format == TernaryFormat::marked ? sizeof(T) : 0);
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
  static constexpr std::uint32_t kLook = 8;
  static MQ_DEVICE bool likely(const std::byte* p, std::uint32_t n, std::uint32_t most) {
    const std::uint32_t format_count = near_word(p), count = format_count & 0xffffff,
                        bytes = near_word(p + 4);
    const auto format = static_cast<ValuedFormat>(format_count >> 24);
    if (format < ValuedFormat::gap || format > ValuedFormat::marked || count > n) return false;
    const std::size_t least = valued_bytes<T>(format, count, 0, n);
    return format == ValuedFormat::gap ? bytes >= least && bytes <= valued_bound<T>(n, most) : bytes == least;
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
  static constexpr std::uint32_t kLook = 4;
  static MQ_DEVICE bool likely(const std::byte* p, std::uint32_t n, std::uint32_t) {
    return near_word(p) <= n;
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

inline constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

// How far a walk came.
struct Walked {
  std::uint64_t at;  // where the next block begins
  std::uint32_t number, malformed;
};
// Goes on to the first block that begins at `end` or later, or that has number `blocks`. For each block
// before, until one is malformed, one lane calls found(number, offset), where the offset is kNoBlock if it is
// malformed. All threads must call it.
template <class Length, class Found>
MQ_DEVICE Walked walk_from(const SparseDecodeArgs& a, const Walked& from, std::uint32_t blocks,
                           std::uint64_t end, const Found& found, const Length& length_of) {
  auto& s = shared<Walked>();
  barrier();  // all threads have read the result of the walk before, and its window
  if (thread() == 0) s = from;
  barrier();
  while (s.number < blocks && s.at < end && s.malformed == 0) {
    const Window window(a, s.at);
    if (warp() == 0) {
      std::uint64_t at = window.begin, length = 1;
      std::uint32_t number = s.number;
      for (; number < blocks && at < end && length != 0; at += length, number += length != 0) {
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
// Finds the first `blocks` blocks.
template <class Length, class Found>
MQ_DEVICE Walked walk_to(const SparseDecodeArgs& a, std::uint32_t blocks, const Found& found,
                         const Length& length_of = {}) {
  return walk_from(a, {0, 0, 0}, blocks, kNoEnd, found, length_of);
}

// The first place in [from, end) that looks like a header, or `end`. All threads must call it.
template <class Length>
MQ_DEVICE std::uint64_t find_header(const SparseDecodeArgs& a, std::uint64_t from, std::uint64_t end,
                                    const Length& length_of) {
  auto& first = shared<std::uint32_t, 104>();
  while (from < end) {
    barrier();  // all threads have read the window before, and `first`
    if (thread() == 0) first = kAll;
    const Window window(a, from);
    const std::uint64_t places =
        greater(window.end + 1, from + Length::kLook) - Length::kLook;  // whole in it
    const auto count = static_cast<std::uint32_t>(smaller(places, end) - from);
    for (std::uint32_t i = thread(); i < count; i += threads())
      if (length_of.likely(window.at + i, a.block, a.most[0])) {
        atomic_min(&first, i);
        break;
      }
    barrier();
    if (first != kAll) return from + first;
    if (window.end == a.wire_bytes) break;
    from = places;
  }
  return end;
}

MQ_DEVICE std::uint64_t segment_end(const SparseDecodeArgs& a, std::uint32_t segment) {
  return smaller((segment + std::uint64_t{1}) * a.segment_bytes, a.wire_bytes);
}

// One thread block for each segment. Takes all blocks for whole ones, so it never finds the last block of the
// wire.
template <class Length>
MQ_DEVICE void survey(const SparseDecodeArgs& a, const Length& length_of = {}) {
  constexpr int kGuesses = 4;
  const std::uint64_t begin = block() * a.segment_bytes, end = segment_end(a, block());
  Segment segment{kNoBlock, kNoBlock, 0, kNoNumber};
  std::uint64_t entry = begin;
  for (int guess = 0; guess < kGuesses && segment.entry == kNoBlock; ++guess, ++entry) {
    entry = find_header(a, entry, end, length_of);
    if (entry >= end) break;
    const Walked walked = walk_from(
        a, {entry, 0, 0}, a.blocks - 1, end, [](std::uint32_t, std::uint64_t) {}, length_of);
    if (walked.malformed == 0 && walked.at >= end) segment = {entry, walked.at, walked.number, kNoNumber};
  }
  if (thread() == 0) a.segments[block()] = segment;
}

// Numbers the segments from `first` on whose guesses continue the walk, and goes to the end of the last of
// them. Returns their number, at most one for each thread. All threads must call it.
MQ_DEVICE std::uint32_t accept_segments(const SparseDecodeArgs& a, std::uint32_t first, Walked& walked) {
  const std::uint32_t i = first + thread();
  const bool exists = i < a.segment_count;
  const Segment segment = exists ? a.segments[i] : Segment{kNoBlock, kNoBlock, 0, kNoNumber};
  const std::uint64_t begins = thread() == 0 ? walked.at : exists ? a.segments[i - 1].exit : 0;
  std::uint64_t all;
  const std::uint64_t number = walked.number + block_before(std::uint64_t{segment.count}, all);
  const bool right =
      segment.entry == begins && segment.entry != kNoBlock && number + segment.count < a.blocks;
  const std::uint32_t accepted = threads() - block_max(right ? 0 : threads() - thread());
  if (thread() < accepted) a.segments[i].number = static_cast<std::uint32_t>(number);
  auto& last = shared<Walked, 105>();
  if (thread() == 0) last = walked;
  barrier();
  if (thread() + 1 == accepted) last = {segment.exit, static_cast<std::uint32_t>(number + segment.count), 0};
  barrier();
  walked = last;
  return accepted;
}

// Runs as one thread block, before a decode of many blocks.
template <class Length>
MQ_DEVICE void walk(const SparseDecodeArgs& a, const Length& length = {}) {
  const auto found = [&](std::uint32_t number, std::uint64_t at) { a.offsets[number] = at; };
  Walked walked{0, 0, 0};
  for (std::uint32_t segment = 0; segment < a.segment_count && walked.malformed == 0;) {
    const std::uint32_t accepted = accept_segments(a, segment, walked);
    segment += accepted;
    if (accepted == threads() || segment >= a.segment_count) continue;
    walked = walk_from(a, walked, a.blocks, segment_end(a, segment), found, length);
    ++segment;
  }
  walked = walk_from(a, walked, a.blocks, kNoEnd, found, length);
  for (std::uint64_t i = walked.number + thread(); i < a.blocks; i += threads()) a.offsets[i] = kNoBlock;
  if (thread() == 0 && walked.at != a.wire_bytes) *a.malformed = 1;
}

// One thread block for each segment, after the walk.
template <class Length>
MQ_DEVICE void list(const SparseDecodeArgs& a, const Length& length = {}) {
  const Segment segment = a.segments[block()];
  if (segment.number == kNoNumber) return;
  walk_from(
      a, {segment.entry, segment.number, 0}, segment.number + segment.count, kNoEnd,
      [&](std::uint32_t number, std::uint64_t at) { a.offsets[number] = at; }, length);
}

// Where this thread block's block begins. If it is kNoBlock, *malformed is set. If there are few blocks, each
// thread block walks alone, and the last one checks that the wire ends after its block. All threads must
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

// The kernels of WalkKernels, of a Length that can survey.
#define MQ_WALKS(family, element, Args, ...)                                                        \
  MQ_KERNEL(family##_survey_##element, Args, 256) { mq::kernels::cuda::survey<__VA_ARGS__>(args); } \
  MQ_KERNEL(family##_walk_##element, Args, 256) { mq::kernels::cuda::walk<__VA_ARGS__>(args); }     \
  MQ_KERNEL(family##_list_##element, Args, 256) { mq::kernels::cuda::list<__VA_ARGS__>(args); }
