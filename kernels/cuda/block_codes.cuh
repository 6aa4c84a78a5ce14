// How codes of up to 8 bits lie in groups of 32, as host/packed-inl.hpp says: for a warp whose lanes have an
// element of a group each, and for one whose lanes have quads of a stripe of four groups.
#pragma once

#include "kernels/cuda/block_quads.cuh"

namespace mq::simt {

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

// Four codes of a quad, a byte each, the first in the lowest.
MQ_DEVICE std::uint32_t in_bytes(const std::uint32_t (&code)[kQuad]) {
  return (code[0] & 0xff) | (code[1] & 0xff) << 8 | (code[2] & 0xff) << 16 | code[3] << 24;
}
MQ_DEVICE std::uint32_t byte_of(std::uint32_t codes, std::uint32_t j) { return codes >> (8 * j) & 0xff; }

// Calls f with the number of bits as a constant where it is a usual one and kUsual, else with 0.
template <bool kUsual, class F>
MQ_DEVICE auto with_bits(int bits, const F& f) {
  if constexpr (kUsual) {
    if (bits == 8) return f(std::integral_constant<int, 8>{});
    if (bits == 4) return f(std::integral_constant<int, 4>{});
  }
  return f(std::integral_constant<int, 0>{});
}

// Does what pack_codes does, for the four groups of a stripe at once. `codes`: the codes of this lane's quad.
// Group g begins at wire + stride g. `exists`: this lane's group has elements. kBits is `bits`, or 0.
template <int kBits>
MQ_DEVICE void pack_stripe(std::byte* wire, std::uint32_t stride, int bits, bool exists,
                           std::uint32_t codes) {
  const int width = kBits != 0 ? kBits : bits;
  const std::uint32_t place = lane() % 8;
  wire += lane() / 8 * stride;
  if (width == 8) {
    if (exists) store(wire + 4 * place, codes);
    return;
  }
  if ((width & 4) != 0) {
    const std::uint32_t own = codes & 0x0f0f0f0fu, pair = own | shuffle_xor(own, 4) << 4;
    if (exists && place < 4) store(wire + 4 * place, pair);
    codes >>= 4;
    wire += 16;
  }
  if ((width & 2) != 0) {
    const std::uint32_t own = codes & 0x03030303u, pair = own | shuffle_xor(own, 2) << 2;
    const std::uint32_t four = pair | shuffle_xor(pair, 4) << 4;
    if (exists && place < 2) store(wire + 4 * place, four);
    codes >>= 2;
    wire += 8;
  }
  if ((width & 1) != 0) {
    const std::uint32_t bits_of_quad = (codes & 0x01010101u) * 0x10204080u >> 28;
    const std::uint32_t byte = bits_of_quad | shuffle_xor(bits_of_quad, 1) << 4;
    if (exists && place % 2 == 0) wire[place / 2] = static_cast<std::byte>(byte);
  }
}
// The codes of this lane's quad, a byte each; 0 if its group has no elements. No warp function.
template <int kBits>
MQ_DEVICE std::uint32_t unpack_stripe(const std::byte* wire, std::uint32_t stride, int bits, bool exists) {
  if (!exists) return 0;
  const int width = kBits != 0 ? kBits : bits;
  const std::uint32_t place = lane() % 8;
  wire += lane() / 8 * stride;
  if (width == 8) return load<std::uint32_t>(wire + 4 * place);
  std::uint32_t codes = 0, shift = 0;
  if ((width & 4) != 0) {
    codes = load<std::uint32_t>(wire + 4 * (place % 4)) >> (place / 4 * 4) & 0x0f0f0f0fu;
    shift = 4;
    wire += 16;
  }
  if ((width & 2) != 0) {
    codes |= (load<std::uint32_t>(wire + 4 * (place % 2)) >> (place / 2 * 2) & 0x03030303u) << shift;
    shift += 2;
    wire += 8;
  }
  if ((width & 1) != 0) {
    const std::uint32_t bits_of_quad = static_cast<std::uint32_t>(wire[place / 2]) >> (place % 2 * 4) & 15;
    codes |= (bits_of_quad * 0x00204081u & 0x01010101u) << shift;
  }
  return codes;
}

}  // namespace mq::simt
