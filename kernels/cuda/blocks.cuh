// The loops of rows with blocks of a fixed size (blocks.hpp): one warp a block. The wire may be pinned host memory at any
// address, so that of a block is built in shared memory and written once.
//
// A family Q has, for one warp and one block:
//
//   T, Settings
//   encode(settings, BlockSource<T, F>, random, wire)  writes the block's bytes; returns its elements that are not finite
//   decode(settings, BlockTarget<T, kAdd>, wire)        false if encode cannot have written it
//
// Lane i of the warp has elements i, i + 32, ... of the block: group g is elements 32 g to 32 g + 31.
#pragma once

#include "kernels/cuda/blocks.hpp"
#include "kernels/cuda/dense.cuh"
#include "kernels/philox.hpp"

namespace mq::simt {

MQ_DEVICE constexpr std::uint32_t groups_of(std::uint32_t n) { return (n + 31) / 32; }

// The elements of a block: x, with carry plus the residual. Elements behind the last are +0.
template <class T, kernels::Feedback F>
struct BlockSource {
  const std::byte* x;
  std::byte* residual;
  std::uint32_t n;
  bool keeps;  // there is a residual, even if this encode does not use it

  MQ_DEVICE std::uint32_t index(std::uint32_t g) const { return 32 * g + lane(); }
  MQ_DEVICE T v(std::uint32_t g) const {
    const std::uint32_t i = index(g);
    if (i >= n) return T{0};
    const T alone = load<T>(x + std::size_t{i} * sizeof(T));
    if constexpr (F != kernels::Feedback::carry) return alone;
    return sum_of(alone, load<T>(residual + std::size_t{i} * sizeof(T)));
  }
  // Stores what was lost: to the residual with carry, added to it with deposit.
  MQ_DEVICE void keep(std::uint32_t g, T error) const {
    if constexpr (F == kernels::Feedback::none) return;
    const std::uint32_t i = index(g);
    if (i >= n) return;
    std::byte* const at = residual + std::size_t{i} * sizeof(T);
    store(at, F == kernels::Feedback::deposit ? deposited(load<T>(at), error) : error);
  }
};

// The bit pattern of the greatest finite magnitude of a block.
template <class T, kernels::Feedback F>
MQ_DEVICE typename BitsOf<T>::Word greatest_pattern(const BlockSource<T, F>& source) {
  typename BitsOf<T>::Word most = 0;
  for (std::uint32_t g = 0; g < groups_of(source.n); ++g) {
    const T v = source.v(g);
    if (is_finite(v)) most = greater(most, bits_as<typename BitsOf<T>::Word>(v) & ~BitsOf<T>::kSign);
  }
  return warp_max(most);
}

// Where the elements of a block go.
template <class T, bool kAdd>
struct BlockTarget {
  const std::byte* base;
  std::byte* x;
  std::uint32_t n;

  MQ_DEVICE std::uint32_t index(std::uint32_t g) const { return 32 * g + lane(); }
  MQ_DEVICE bool has(std::uint32_t g) const { return index(g) < n; }
  MQ_DEVICE void put(std::uint32_t g, T decoded) const {
    if (!has(g)) return;
    const std::size_t at = std::size_t{index(g)} * sizeof(T);
    store(x + at, kAdd ? joined_sum(load<T>(base + at), decoded) : decoded);
  }
};

// The random numbers of a block (philox.hpp). A draw serves this lane in four groups.
class BlockRandom {
 public:
  MQ_DEVICE BlockRandom(const kernels::Site& site, std::uint64_t begin)
      : call_(site.call), sum_(site.sum), begin_(site.index + begin) {}
  // Those of Noise::bits_at and Noise::at on the host, for group g.
  MQ_DEVICE std::uint32_t bits_at(std::uint32_t g) {
    const std::uint64_t element = begin_ + 32 * g + lane();
    const std::uint64_t number =
        element / kernels::philox::kTile * kernels::philox::kDrawsOfTile + element % 32 / 2;
    if (number != number_) {
      number_ = number;
      drawn_ = kernels::philox::draw({{low(number), high(number), low(sum_), high(sum_)}}, low(call_),
                                     high(call_));
    }
    return drawn_.word[element / 32 % 4] >> (16 * (element % 2)) & 0xffff;
  }
  template <class T>
  MQ_DEVICE T at(std::uint32_t g) {
    return static_cast<T>(bits_at(g)) * T{0x1p-16} + (T{0x1p-17} - T{0.5});
  }

 private:
  static MQ_DEVICE std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
  static MQ_DEVICE std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }
  std::uint64_t call_, sum_, begin_, number_ = ~std::uint64_t{0};
  kernels::philox::Block drawn_{};
};

// Packs the lanes' codes as host/packed-inl.hpp says, into 4 bits bytes.
MQ_DEVICE void pack_codes(std::byte* wire, int bits, std::uint32_t code) {
  if (bits == 8) {
    wire[lane()] = static_cast<std::byte>(code);
    return;
  }
  if ((bits & 4) != 0) {
    const std::uint32_t pair = (code & 15) | (shuffle_down(code, 16) & 15) << 4;
    if (lane() < 16) wire[lane()] = static_cast<std::byte>(pair);
    code >>= 4;
    wire += 16;
  }
  if ((bits & 2) != 0) {
    const std::uint32_t pair = (code & 3) | (shuffle_down(code, 8) & 3) << 2;
    const std::uint32_t four = pair | shuffle_down(pair, 16) << 4;
    if (lane() < 8) wire[lane()] = static_cast<std::byte>(four);
    code >>= 2;
    wire += 8;
  }
  if ((bits & 1) != 0) {
    const std::uint32_t word = ballot((code & 1) != 0);
    if (lane() < 4) wire[lane()] = static_cast<std::byte>(word >> (8 * lane()));
  }
}
// The code of this lane. No warp function.
MQ_DEVICE std::uint32_t unpack_code(const std::byte* wire, int bits) {
  const std::uint32_t i = lane();
  if (bits == 8) return static_cast<std::uint32_t>(wire[i]);
  std::uint32_t code = 0, shift = 0;
  if ((bits & 4) != 0) {
    code = static_cast<std::uint32_t>(wire[i % 16]) >> (i / 16 * 4) & 15;
    shift = 4;
    wire += 16;
  }
  if ((bits & 2) != 0) {
    code |= (static_cast<std::uint32_t>(wire[i % 8]) >> (i / 8 * 2) & 3) << shift;
    shift += 2;
    wire += 8;
  }
  if ((bits & 1) != 0) code |= (static_cast<std::uint32_t>(wire[i / 8]) >> (i % 8) & 1) << shift;
  return code;
}

template <class Q, kernels::Feedback F>
MQ_DEVICE std::uint64_t encode_blocks_as(const kernels::block_rows::Encode<typename Q::Settings>& a) {
  using T = typename Q::T;
  std::byte* const mine = dynamic_shared() + warp() * kernels::block_rows::warp_bytes(a.cut);
  std::uint64_t nonfinite = 0;
  for (std::uint64_t b = std::uint64_t{block()} * warps() + warp(); b < a.cut.blocks();
       b += std::uint64_t{blocks()} * warps()) {
    const std::uint64_t begin = b * a.cut.elements;
    const auto n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.cut.elements, a.cut.n - begin));
    const BlockSource<T, F> source{a.x + begin * sizeof(T), a.residual + begin * sizeof(T), n, a.keeps};
    BlockRandom random(a.site, begin);
    nonfinite += Q::encode(a.settings, source, random, mine);
    warp_sync();
    copy_bytes(a.wire + b * a.cut.bytes, mine, Q::bytes(a.settings, n), lane(), 32);
    warp_sync();
  }
  return nonfinite;
}

template <class Q>
MQ_DEVICE void encode_blocks(const kernels::block_rows::Encode<typename Q::Settings>& a) {
  using kernels::Feedback;
  std::uint64_t nonfinite = 0;
  if (a.feedback == Feedback::none)
    nonfinite = encode_blocks_as<Q, Feedback::none>(a);
  else if (a.feedback == Feedback::carry)
    nonfinite = encode_blocks_as<Q, Feedback::carry>(a);
  else
    nonfinite = encode_blocks_as<Q, Feedback::deposit>(a);
  end_encode(a.encoded, a.bytes, lane() == 0 ? nonfinite : 0);
}

template <class Q, bool kAdd>
MQ_DEVICE void decode_blocks_as(const kernels::block_rows::Decode<typename Q::Settings>& a) {
  using T = typename Q::T;
  for (std::uint64_t b = std::uint64_t{block()} * warps() + warp(); b < a.cut.blocks();
       b += std::uint64_t{blocks()} * warps()) {
    const std::uint64_t begin = b * a.cut.elements, offset = begin * sizeof(T);
    const auto n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.cut.elements, a.cut.n - begin));
    const BlockTarget<T, kAdd> target{kAdd ? a.base + offset : nullptr, a.x + offset, n};
    const bool ok = Q::decode(a.settings, target, a.wire + b * a.cut.bytes);
    if (!ok && lane() == 0) *a.malformed = 1;
  }
}

template <class Q>
MQ_DEVICE void decode_blocks(const kernels::block_rows::Decode<typename Q::Settings>& a) {
  if (a.base != nullptr)
    decode_blocks_as<Q, true>(a);
  else
    decode_blocks_as<Q, false>(a);
}

}  // namespace mq::simt

// The kernels of a family for both element types: NAME_f32_encode and so on.
#define MQ_BLOCK_KERNELS_OF(name, ...)                                                              \
  MQ_KERNEL(name##_encode, mq::kernels::block_rows::Encode<mq::simt::__VA_ARGS__::Settings>, 256) { \
    mq::simt::encode_blocks<mq::simt::__VA_ARGS__>(args);                                           \
  }                                                                                                 \
  MQ_KERNEL(name##_decode, mq::kernels::block_rows::Decode<mq::simt::__VA_ARGS__::Settings>, 256) { \
    mq::simt::decode_blocks<mq::simt::__VA_ARGS__>(args);                                           \
  }
#define MQ_BLOCK_KERNELS(name, Family)           \
  MQ_BLOCK_KERNELS_OF(name##_f32, Family<float>) \
  MQ_BLOCK_KERNELS_OF(name##_f64, Family<double>)
