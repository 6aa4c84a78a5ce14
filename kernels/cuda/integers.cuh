// int8, int4 and qsgd on a GPU: the device twin of the host's family Scaled. The grid and its place on the wire are those of
// kernels/integers.hpp.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/integers.hpp"

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

  template <kernels::Feedback F>
  static MQ_DEVICE std::uint64_t encode(const Settings& settings, const BlockSource<T, F>& source,
                                        BlockRandom& random, std::byte* wire) {
    std::uint64_t nonfinite = 0;
    const Grid grid = measure(settings, source, nonfinite);
    if (lane() == 0) {
      store(wire, grid.step_on_wire());
      if (settings.values() == 2) store(wire + sizeof(T), grid.middle);
    }
    wire += settings.values() * sizeof(T);
    const T inverse = grid.inverse(), limit = static_cast<T>(settings.limit()),
            rounder = kernels::integers::rounder<T>(settings.limit());
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g, wire += 4 * settings.bits) {
      const T v = source.v(g);
      T scaled = (v - grid.middle) * inverse;
      if (settings.stochastic) scaled = smaller(greater(scaled + random.template at<T>(g), -limit), limit);
      const T rounded = scaled + rounder;
      const bool is_sent = source.index(g) < source.n && is_finite(v);
      source.keep(g, is_sent ? v - ((rounded - rounder) * grid.step + grid.middle) : T{0});
      pack_codes(wire, settings.bits,
                 is_sent ? static_cast<std::uint32_t>(bits_as<Word>(rounded)) & 0xff : 0);
    }
    return nonfinite;
  }

  template <bool kAdd>
  static MQ_DEVICE bool decode(const Settings& settings, const BlockTarget<T, kAdd>& target,
                               const std::byte* wire) {
    const T step = load<T>(wire);
    const T middle = settings.values() == 2 ? load<T>(wire + sizeof(T)) : T{0};
    const Grid grid = Grid::of_wire(step, middle);
    if (!grid.valid((bits_as<Word>(step) & BitsOf<T>::kSign) != 0, settings.limit())) return false;
    wire += settings.values() * sizeof(T);
    const T zero = static_cast<T>(settings.limit() + 1), mark = grid.marked_value();
    const bool marked = grid.mark != Mark::none;
    bool some_marked = false, padded = true;
    for (std::uint32_t g = 0; g < groups_of(target.n); ++g, wire += 4 * settings.bits) {
      const std::uint32_t code = unpack_code(wire, settings.bits);
      if (target.has(g))
        some_marked |= code == 0;
      else
        padded &= code == 0;
      target.put(g, marked && code == 0 ? mark : (static_cast<T>(code) - zero) * grid.step + grid.middle);
    }
    return any(some_marked) == marked && !any(!padded);
  }

 private:
  // The greatest of the lanes' numbers, none of which is a NaN.
  static MQ_DEVICE T greatest_of_warp(T v) { return warp_max(v); }

  template <kernels::Feedback F>
  static MQ_DEVICE Grid measure(const Settings& settings, const BlockSource<T, F>& source,
                                std::uint64_t& nonfinite) {
    T low = infinite_value<T>(), high = -low;
    std::uint32_t plus = 0, minus = 0, nan = 0;
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g) {
      if (source.index(g) >= source.n) break;
      const T v = source.v(g);
      if (is_finite(v)) {
        low = smaller(low, v);
        high = greater(high, v);
      } else {
        nan += v != v;
        plus += v > T{0};
        minus += v < T{0};
      }
    }
    low = -greatest_of_warp(-low);
    high = greatest_of_warp(high);
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
    if (settings.reach == kernels::integers::Reach::magnitude)
      return Grid::of(T{0}, greater(high, -low), settings.limit(), mark);
    if (settings.reach == kernels::integers::Reach::norm)
      return Grid::of(T{0}, norm_of(source, greater(high, -low)), settings.limit(), mark);
    const T middle = low / 2 + high / 2 + T{0};
    return Grid::of(middle, greater(high - middle, middle - low), settings.limit(), mark);
  }

  // The Euclidean norm of the finite elements, at least `most`, the greatest magnitude; at most the greatest number. The
  // sum of the squares has the host's order, that of the elements: every lane adds those of all lanes, one after the other.
  template <kernels::Feedback F>
  static MQ_DEVICE T norm_of(const BlockSource<T, F>& source, T most) {
    if (!(most >= Grid::kTiny)) return most;
    double sum = 0;
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g) {
      const double share = static_cast<double>(source.v(g)) / static_cast<double>(most);
      const double square = is_finite(share) ? share * share : 0;
      MQ_UNROLL(8)
      for (std::uint32_t i = 0; i < 32; ++i) sum += shuffle(square, i);
    }
    constexpr T kMax = bits_as<T>(BitsOf<T>::kInf - 1);
    const double norm = smaller(static_cast<double>(most) * square_root(sum), static_cast<double>(kMax));
    return greater(most, static_cast<T>(norm));
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(integers, IntegerBlocks)
