// terngrad on a GPU: one warp codes a block. What is on the wire is in trits.hpp, the arithmetic of elements
// in integers/rounding-inl.hpp; the host's loops are in host-inl.hpp.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/integers/device.cuh"
#include "kernels/trits/trits.hpp"

namespace mq::simt {

template <class Element>
struct TritBlocks {
  using T = Element;
  using L = Lane<T>;
  using Settings = kernels::trits::Settings;
  using Quantizer = kernels::integers::Quantizer<T>;
  using Head = kernels::trits::MarkedHead<T>;
  using Mark = kernels::integers::Mark;
  using Word = typename BitsOf<T>::Word;
  static constexpr std::uint32_t kGroups = kernels::trits::kGroups;

  static MQ_DEVICE std::uint32_t bytes(const Settings& settings, std::uint32_t n) {
    return static_cast<std::uint32_t>(settings.template block_bytes<T>(n));
  }

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(const Settings& settings, const Source& source, BlockRandom& random,
                                        std::byte* wire) {
    T most = 0;
    kernels::integers::NonFiniteCounts found;
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g) {
      const T v = source.v(g);
      if (is_finite(v))
        most = greater(most, v < T{0} ? -v : v);
      else
        found.add(v);
    }
    most = warp_max(most);
    found = {warp_sum(found.above), warp_sum(found.below), warp_sum(found.nan)};
    if (found.all() == 0)
      encode_finite(source, most_sent(settings, source, most), random, wire);
    else
      encode_marked(source, Head{found.mark(), !source.keeps}, wire);
    return found.all();
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(const Settings&, const BlockTarget<T, kAdd, kWhole>& target,
                               const std::byte* wire) {
    const T on_wire = load<T>(wire);
    const bool marked = (bits_as<Word>(on_wire) & BitsOf<T>::kSign) != 0;
    const Head head = Head::of_wire(on_wire);
    if (marked ? !head.valid(on_wire) : !Quantizer{on_wire}.valid(false, 1)) return false;
    wire += sizeof(T);
    const T values[2][3]{{-on_wire, T{0}, on_wire}, {T{0}, head.other_value(), head.marked_value()}};
    bool wrong = false, some_marked = false;
    for (std::uint32_t first = 0; first < groups_of(target.n); first += kGroups) {
      const std::uint32_t count = smaller(kGroups, groups_of(target.n) - first);
      const int bits = kernels::trits::bits_of(count);
      const std::uint32_t number = unpack_code(wire, bits);
      wire += 4 * bits;
      std::uint32_t unit = kernels::trits::numbers_of(count);
      wrong |= number >= unit;
      for (std::uint32_t g = first; g < first + count; ++g) {
        unit /= 3;
        const std::uint32_t trit = number / unit % 3;
        if (!target.has(g)) {
          wrong |= trit != 0;
          continue;
        }
        wrong |= marked && trit == 0;
        some_marked |= trit == 2;
        target.put(g, !marked && on_wire == T{0} ? T{0} : values[marked][trit]);  // no -0
      }
    }
    return !any(wrong) && (!marked || any(some_marked));
  }

 private:
  // trit_of(g) is the trit of this lane's element of group g, 0 if there is none.
  template <class TritOf>
  static MQ_DEVICE void put_trits(std::byte* wire, std::uint32_t n, TritOf&& trit_of) {
    for (std::uint32_t first = 0; first < groups_of(n); first += kGroups) {
      const std::uint32_t count = smaller(kGroups, groups_of(n) - first);
      std::uint32_t number = 0;
      for (std::uint32_t g = first; g < first + count; ++g) number = 3 * number + trit_of(g);
      const int bits = kernels::trits::bits_of(count);
      pack_codes(wire, bits, number);
      wire += 4 * bits;
    }
  }

  template <class Source>
  static MQ_DEVICE void encode_finite(const Source& source, T most, BlockRandom& random, std::byte* wire) {
    const Quantizer to = Quantizer::of(T{0}, most, 1, Mark::none);
    if (lane() == 0) store(wire, to.step);
    const Rounding<L> rounding(to, 1, kernels::trits::kZero);
    put_trits(wire + sizeof(T), source.n, [&](std::uint32_t g) -> std::uint32_t {
      const L v{source.v(g)}, noise{random.template at<T>(source.index(g))};
      const L quantized = rounding.quantize(rounding.template steps<false>(v), noise);
      source.keep(g, (v - rounding.template decoded<false>(quantized)).v);
      return source.has(g) ? static_cast<std::uint32_t>(quantized.bits()) & 3 : 0;
    });
  }

  template <class Source>
  static MQ_DEVICE void encode_marked(const Source& source, const Head& head, std::byte* wire) {
    if (lane() == 0) store(wire, head.on_wire());
    put_trits(wire + sizeof(T), source.n, [&](std::uint32_t g) -> std::uint32_t {
      const T v = source.v(g);
      source.keep(g, is_finite(v) ? v : T{0});
      return source.has(g) ? (is_finite(v) ? 1 : 2) : 0;
    });
  }

  // The s of a finite block with this greatest magnitude.
  template <class Source>
  static MQ_DEVICE T most_sent(const Settings& settings, const Source& source, T most) {
    if (settings.clip == 0 || !(most >= Quantizer::kTiny)) return most;
    const double share = 1 / static_cast<double>(most);
    double sum = 0;
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g) {
      const double part = static_cast<double>(source.v(g)) * share;
      sum += part * part;
    }
    for (std::uint32_t d = 16; d > 0; d /= 2) sum += shuffle_xor(sum, d);
    return settings.clipped(most, square_root(sum / static_cast<double>(source.n)));
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(trits, TritBlocks)
