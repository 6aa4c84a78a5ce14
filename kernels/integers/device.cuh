// int8, int4 and qsgd on a GPU: the device twin of the host's family Integers. The grid and its place on the
// wire are those of kernels/integers/integers.hpp.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/integers/integers.hpp"

namespace mq::simt {

template <class Element>
struct IntegerBlocks {
  using T = Element;
  using Settings = kernels::integers::Settings;
  using Grid = kernels::integers::Grid<T>;
  using Mark = kernels::integers::Mark;
  using Word = typename BitsOf<T>::Word;

  static MQ_DEVICE std::uint32_t bytes(const Settings& settings, std::uint32_t n) {
    return static_cast<std::uint32_t>(settings.template block_bytes<T>(n));
  }

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(const Settings& settings, const Source& source, BlockRandom& random,
                                        std::byte* wire) {
    BlockQuads<Source> quads(source);
    std::uint64_t nonfinite = 0;
    const Grid grid = measure(settings, source, quads, nonfinite);
    if (lane() == 0) {
      store(wire, grid.step_on_wire());
      if (settings.values() == 2) store(wire + sizeof(T), grid.middle);
    }
    wire += settings.values() * sizeof(T);
    if (settings.stochastic)
      code<0, true>(settings, source, quads, grid, random, wire);
    else
      with_bits<Source::kUsual>(
          settings.bits, [&](auto bits) { code<bits, false>(settings, source, quads, grid, random, wire); });
    return nonfinite;
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(const Settings& settings, const BlockTarget<T, kAdd, kWhole>& target,
                               const std::byte* wire) {
    const T step = load<T>(wire);
    const T middle = settings.values() == 2 ? load<T>(wire + sizeof(T)) : T{0};
    const Grid grid = Grid::of_wire(step, middle);
    if (!grid.valid((bits_as<Word>(step) & BitsOf<T>::kSign) != 0, settings.limit())) return false;
    wire += settings.values() * sizeof(T);
    return with_bits<kWhole>(settings.bits,
                             [&](auto bits) { return values<bits>(settings, target, grid, wire); });
  }

 private:
  static MQ_DEVICE std::uint32_t stride_of(const Settings& settings) {
    return 4 * static_cast<std::uint32_t>(settings.bits);  // of a group on the wire
  }

  template <int kBits, bool kStochastic, class Source>
  static MQ_DEVICE void code(const Settings& settings, const Source& source, BlockQuads<Source>& quads,
                             const Grid& grid, BlockRandom& random, std::byte* wire) {
    const T inverse = grid.inverse(), limit = static_cast<T>(settings.limit()),
            rounder = kernels::integers::rounder<T>(settings.limit());
    const std::uint32_t stride = stride_of(settings);
    const bool all_finite = grid.mark == Mark::none;
    quads.each([&](std::uint32_t row, const Quad<T>& v) {
      std::uint32_t codes[kQuad], noise[kQuad];
      Quad<T> error;
      if constexpr (kStochastic) random.bits_of_quad(source.first(row), noise);
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        T scaled = (v.of[j] - grid.middle) * inverse;
        if constexpr (kStochastic)
          scaled = smaller(greater(scaled + BlockRandom::in_unit<T>(noise[j]), -limit), limit);
        const T rounded = scaled + rounder;
        const bool is_sent = source.has(row, j) && (all_finite || is_finite(v.of[j]));
        error.of[j] = is_sent ? v.of[j] - ((rounded - rounder) * grid.step + grid.middle) : T{0};
        codes[j] = is_sent ? static_cast<std::uint32_t>(bits_as<Word>(rounded)) : 0;
      }
      source.keep(row, error);
      pack_row<kBits>(wire + 4 * row * stride, stride, settings.bits, source.has_group(row), in_bytes(codes));
    });
  }

  template <int kBits, bool kAdd, bool kWhole>
  static MQ_DEVICE bool values(const Settings& settings, const BlockTarget<T, kAdd, kWhole>& target,
                               const Grid& grid, const std::byte* wire) {
    const std::uint32_t stride = stride_of(settings);
    const T zero = static_cast<T>(settings.limit() + 1), mark = grid.marked_value();
    const bool marked = grid.mark != Mark::none;
    bool some_marked = false, padded = true;
    target.put_rows([&](std::uint32_t row) {
      const std::uint32_t codes =
          unpack_row<kBits>(wire + 4 * row * stride, stride, settings.bits, target.has_group(row));
      Quad<T> v;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const std::uint32_t code = byte_of(codes, j);
        if (target.has(row, j))
          some_marked |= code == 0;
        else
          padded &= code == 0;
        v.of[j] = marked && code == 0 ? mark : (static_cast<T>(code) - zero) * grid.step + grid.middle;
      }
      return v;
    });
    return any(some_marked) == marked && !any(!padded);
  }

  template <class Source>
  static MQ_DEVICE Grid measure(const Settings& settings, const Source& source, BlockQuads<Source>& quads,
                                std::uint64_t& nonfinite) {
    using kernels::integers::Reach;
    const Word most = quads.greatest();
    if (settings.reach != Reach::ends && most < BitsOf<T>::kInf) {
      const T reach = bits_as<T>(most);
      return Grid::of(T{0}, settings.reach == Reach::norm ? norm_of(quads, reach) : reach, settings.limit(),
                      Mark::none);
    }
    T low = infinite_value<T>(), high = -low;
    std::uint32_t plus = 0, minus = 0, nan = 0;
    quads.each([&](std::uint32_t row, const Quad<T>& quad) {
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const T v = quad.of[j];
        if (!source.has(row, j)) continue;
        if (is_finite(v)) {
          low = smaller(low, v);
          high = greater(high, v);
        } else {
          nan += v != v;
          plus += v > T{0};
          minus += v < T{0};
        }
      }
    });
    low = -warp_max(-low);
    high = warp_max(high);
    plus = warp_sum(plus);
    minus = warp_sum(minus);
    nan = warp_sum(nan);
    if (low > high) low = high = T{0};  // no element is finite
    const std::uint32_t all = plus + minus + nan;
    nonfinite = all;
    const Mark mark = all == 0       ? Mark::none
                      : all == plus  ? Mark::above
                      : all == minus ? Mark::below
                                     : Mark::nan;
    if (settings.reach == Reach::magnitude)
      return Grid::of(T{0}, greater(high, -low), settings.limit(), mark);
    if (settings.reach == Reach::norm)
      return Grid::of(T{0}, norm_of(quads, greater(high, -low)), settings.limit(), mark);
    const T middle = low / 2 + high / 2 + T{0};
    return Grid::of(middle, greater(high - middle, middle - low), settings.limit(), mark);
  }

  // The Euclidean norm of the finite elements, at least `most`, the greatest magnitude; at most the greatest
  // number. The sum of the squares has the host's order, element after element: every lane adds those of all
  // lanes, one after the other.
  template <class Source>
  static MQ_DEVICE T norm_of(BlockQuads<Source>& quads, T most) {
    if (!(most >= Grid::kTiny)) return most;
    double sum = 0;
    quads.each([&](std::uint32_t, const Quad<T>& v) {
      double square[kQuad];
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const double share = static_cast<double>(v.of[j]) / static_cast<double>(most);
        square[j] = is_finite(share) ? share * share : 0;
      }
      MQ_UNROLL(1)
      for (std::uint32_t i = 0; i < 32; ++i)
        for (std::uint32_t j = 0; j < kQuad; ++j) sum += shuffle(square[j], i);
    });
    constexpr T kMax = bits_as<T>(BitsOf<T>::kInf - 1);
    const double norm = smaller(static_cast<double>(most) * square_root(sum), static_cast<double>(kMax));
    return greater(most, static_cast<T>(norm));
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(integers, IntegerBlocks)
