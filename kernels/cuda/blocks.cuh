// The loops of rows with blocks of a fixed size (blocks.hpp): one warp a block. The wire may be pinned host
// memory at any address, so the wire of a block is built in shared memory and written once.
//
// A family Q has, for one warp and one block:
//
//   T, Settings
//   bytes(settings, n)                     of a block of n elements on the wire
//   encode(settings, source, random, wire) writes the block's bytes; returns its elements that are not finite
//   decode(settings, target, wire)         false if encode cannot have written it
//
// A source is a BlockSource and a target a BlockTarget. Most families work on stripes of 128 elements: lane i
// has elements 4 i to 4 i + 3 of a stripe, a quad, so that memory is accessed 16 bytes a lane, and what
// belongs to 32 elements is computed once for four of them. Others work on groups of 32 elements, in which
// lane i has element i.
#pragma once

#include "kernels/cuda/block_codes.cuh"
#include "kernels/cuda/block_quads.cuh"
#include "kernels/cuda/blocks.hpp"
#include "kernels/cuda/dense.cuh"
#include "kernels/philox.hpp"

namespace mq::simt {

// The random numbers of a block (philox.hpp), which begins at a multiple of 32 elements of the vector.
class BlockRandom {
 public:
  MQ_DEVICE BlockRandom(const kernels::NoiseIndex& noise, std::uint64_t begin)
      : call_(noise.call), sum_(noise.sum), begin_(noise.index + begin) {}
  // The random bits of element i of the block, equal to Noise::bits_at on the host. A draw serves two
  // neighbours, of four groups.
  MQ_DEVICE std::uint32_t bits_at(std::uint32_t i) {
    const std::uint64_t element = begin_ + i;
    const std::uint64_t number = number_of(element);
    if (number != number_) {
      number_ = number;
      drawn_ = draw(number);
    }
    return drawn_.word[element / 32 % 4] >> (16 * (element % 2)) & 0xffff;
  }
  // Noise::at on the host.
  template <class T>
  MQ_DEVICE T at(std::uint32_t i) {
    return in_unit<T>(bits_at(i));
  }
  template <class T>
  static MQ_DEVICE T in_unit(std::uint32_t bits) {
    return static_cast<T>(bits) * T{0x1p-16} + (T{0x1p-17} - T{0.5});
  }
  // The random bits of four elements from i on, an even number: two draws, by one copy of the code.
  MQ_DEVICE void bits_of_quad(std::uint32_t i, std::uint32_t (&bits)[kQuad]) const {
    const std::uint64_t element = begin_ + i;
    std::uint32_t both[2];
    MQ_UNROLL(1)
    for (std::uint32_t pair = 0; pair < 2; ++pair) {
      const kernels::philox::Block drawn = draw(number_of(element) + pair);
      std::uint32_t word = drawn.word[0];
      MQ_UNROLL(4)
      for (std::uint32_t w = 1; w < 4; ++w)
        if (element / 32 % 4 == w) word = drawn.word[w];
      if (pair == 0)
        both[0] = word;
      else
        both[1] = word;
    }
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kQuad; ++j) bits[j] = both[j / 2] >> (16 * (j % 2)) & 0xffff;
  }

 private:
  static MQ_DEVICE std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
  static MQ_DEVICE std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }
  static MQ_DEVICE std::uint64_t number_of(std::uint64_t element) {
    return element / kernels::philox::kTile * kernels::philox::kDrawsOfTile + element % 32 / 2;
  }
  MQ_DEVICE kernels::philox::Block draw(std::uint64_t number) const {
    return kernels::philox::draw({{low(number), high(number), low(sum_), high(sum_)}}, low(call_),
                                 high(call_));
  }
  std::uint64_t call_, sum_, begin_, number_ = ~std::uint64_t{0};
  kernels::philox::Block drawn_{};
};

// Whether blocks of so many elements, in vectors at these addresses, are whole (Places).
template <class... Addresses>
MQ_DEVICE bool are_whole(std::uint32_t elements, const Addresses*... at) {
  return elements % (kStripesAtOnce * kStripe) == 0 && (aligned(at, 16) && ...);
}

template <class Q, kernels::Feedback F>
MQ_DEVICE void encode_blocks(const kernels::block_rows::Encode<typename Q::Settings>& a) {
  using T = typename Q::T;
  std::byte* const mine = dynamic_shared() + warp() * kernels::block_rows::warp_bytes(a.cut);
  const bool whole = are_whole(a.cut.elements, a.x, F == kernels::Feedback::none ? a.x : a.residual);
  const bool in_words = aligned(a.wire, 4) && a.cut.bytes % 4 == 0;
  std::uint64_t nonfinite = 0;
  for (std::uint64_t b = std::uint64_t{block()} * warps() + warp(); b < a.cut.blocks;
       b += std::uint64_t{blocks()} * warps()) {
    const std::uint64_t begin = b * a.cut.elements;
    const auto n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.cut.elements, a.cut.n - begin));
    const std::byte* const x = a.x + begin * sizeof(T);
    std::byte* const residual = a.residual + begin * sizeof(T);
    BlockRandom random(a.noise, begin);
    if (whole && n == a.cut.elements)
      nonfinite += Q::encode(a.settings, BlockSource<T, F, true>(x, residual, n, a.keeps), random, mine);
    else
      nonfinite += Q::encode(a.settings, BlockSource<T, F, false>(x, residual, n, a.keeps), random, mine);
    warp_sync();
    std::byte* const wire = a.wire + b * a.cut.bytes;
    if (in_words && n == a.cut.elements) {
      for (std::uint32_t at = 4 * lane(); at < a.cut.bytes; at += 4 * 32)
        *reinterpret_cast<std::uint32_t*>(wire + at) = *reinterpret_cast<const std::uint32_t*>(mine + at);
    } else {
      copy_bytes(wire, mine, Q::bytes(a.settings, n), lane(), 32);
    }
    warp_sync();
  }
  end_encode(a.encoded, a.bytes, lane() == 0 ? nonfinite : 0);
}

template <class Q, bool kAdd>
MQ_DEVICE void decode_blocks(const kernels::block_rows::Decode<typename Q::Settings>& a) {
  using T = typename Q::T;
  const bool whole = are_whole(a.cut.elements, a.x, kAdd ? a.base : a.x);
  for (std::uint64_t b = std::uint64_t{block()} * warps() + warp(); b < a.cut.blocks;
       b += std::uint64_t{blocks()} * warps()) {
    const std::uint64_t begin = b * a.cut.elements, offset = begin * sizeof(T);
    const auto n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.cut.elements, a.cut.n - begin));
    const std::byte* const base = kAdd ? a.base + offset : nullptr;
    const std::byte* const wire = a.wire + b * a.cut.bytes;
    const bool ok = whole && n == a.cut.elements
                        ? Q::decode(a.settings, BlockTarget<T, kAdd, true>(base, a.x + offset, n), wire)
                        : Q::decode(a.settings, BlockTarget<T, kAdd, false>(base, a.x + offset, n), wire);
    if (!ok && lane() == 0) *a.malformed = 1;
  }
}

}  // namespace mq::simt

// The kernels of a family for both element types (block_row.hpp has their names). At least `encodes` and
// `decodes` thread blocks fit a multiprocessor. Without a limit of registers most places for warps would be
// free, and too few reads under way.
#define MQ_BLOCK_ENCODE(name, blocks, feedback, ...)                                                        \
  MQ_KERNEL_RESIDENT(name, mq::kernels::block_rows::Encode<mq::simt::__VA_ARGS__::Settings>, 256, blocks) { \
    mq::simt::encode_blocks<mq::simt::__VA_ARGS__, mq::kernels::Feedback::feedback>(args);                  \
  }
#define MQ_BLOCK_DECODE(name, blocks, adds, ...)                                                            \
  MQ_KERNEL_RESIDENT(name, mq::kernels::block_rows::Decode<mq::simt::__VA_ARGS__::Settings>, 256, blocks) { \
    mq::simt::decode_blocks<mq::simt::__VA_ARGS__, adds>(args);                                             \
  }
#define MQ_BLOCK_KERNELS_OF(name, encodes, decodes, ...)                \
  MQ_BLOCK_ENCODE(name##_encode, encodes, none, __VA_ARGS__)            \
  MQ_BLOCK_ENCODE(name##_encode_carry, encodes, carry, __VA_ARGS__)     \
  MQ_BLOCK_ENCODE(name##_encode_deposit, encodes, deposit, __VA_ARGS__) \
  MQ_BLOCK_DECODE(name##_decode, decodes, false, __VA_ARGS__)           \
  MQ_BLOCK_DECODE(name##_decode_add, decodes, true, __VA_ARGS__)
#define MQ_BLOCK_KERNELS(name, Family)                 \
  MQ_BLOCK_KERNELS_OF(name##_f32, 3, 4, Family<float>) \
  MQ_BLOCK_KERNELS_OF(name##_f64, 2, 3, Family<double>)
