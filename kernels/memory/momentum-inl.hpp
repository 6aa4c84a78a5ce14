// momentum: the memory of Deep Gradient Compression (Lin, Han, Mao, Wang, Dally, ICLR 2018, section 3). The
// momentum of SGD is kept by each rank, before compression, so that a gradient that waits in the residual is
// multiplied as if it had been sent:
//   u = m u + c x    v = e + u is encoded    e' = v - decoded
//   u = 0 where decoded is not 0 (factor masking)
// The result is the sum of decoded values: the optimizer then takes plain steps, without momentum of its own.
// With codec raw and mask=off the results equal SGD with momentum.
//
// c is 1, or with clip > 0 the factor that cuts the norm of a rank's vector to clip / sqrt(P): local gradient
// clipping, for norms of sums that are to stay below clip. An element counts as sent if e' differs from v.
#pragma once
#include "kernels/memory/faded-inl.hpp"

struct Momentum {
  static constexpr std::string_view kName = "momentum";
  static constexpr std::string_view kWhat =
      "error feedback on each rank's own momentum, with topk (Lin et al. 2018: Deep Gradient Compression)";
  static constexpr std::uint8_t kId = 4;
  static constexpr std::array<std::string_view, 2> kSwitch{"on", "off"};
  static constexpr std::array kSpecs{
      ParamSpec{"m", "the momentum: how much of the last call's u remains", ParamKind::real, 0.9, 0, 0.9999},
      ParamSpec{"clip", "the norm of a rank's vector is cut to clip / sqrt(ranks); 0: it is not",
                ParamKind::real, 0, 0, 1e30},
      ParamSpec{"mask", "whether the momentum of elements that were sent becomes 0", ParamKind::word, 0, 0, 1,
                kSwitch}};
  static constexpr int kArrays = 2;  // e, u
  static constexpr bool kEncodesOwn = true, kKeepsSums = false;

  static bool measures(const Params& params) { return params.value[1] > 0; }
  static double factor(double norm, const Params& params, int ranks) {
    const double most = params.value[1] / std::sqrt(static_cast<double>(ranks));
    return norm > most ? most / norm : 1;
  }

  template <class T>
  static MQ_RULE Operand before(const MemoryTile& tile) {
    using L = Lanes<T>;
    const Faded<T> faded(tile.params.value[0]);
    const L c = L::all(static_cast<T>(tile.factor));
    const auto x = array_at<T>(tile.x);
    const auto e = array_at<T>(tile.array[0]), u = array_at<T>(tile.array[1]), v = array_at<T>(tile.scratch);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          e.ask_next(g, tile.n), u.ask_next(g, tile.n);
          const L newest = faded(u.get(g, width)) + c * x.get(g, width);
          u.put(g, newest, width);
          v.put(g, newest + e.get(g, width), width);
        });
    return {tile.array[1], tile.array[0]};
  }

  template <class T>
  static MQ_RULE void after(const MemoryTile& tile) {
    using L = Lanes<T>;
    const L zero = L::all(T{0});
    const bool masks = tile.params.value[2] == 0;
    const auto x = array_at<T>(tile.x);
    const auto e = array_at<T>(tile.array[0]), u = array_at<T>(tile.array[1]), v = array_at<T>(tile.scratch);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          x.ask_next(g, tile.n);
          const L kept = u.get(g, width), waits = e.get(g, width), whole = v.get(g, width);
          const std::uint32_t unsent = waits.at_least(whole).bits() & whole.at_least(waits).bits();
          const std::uint32_t keeps = kept.finite().bits() & (masks ? unsent : ~0u);
          u.put(g, L::select(L::mask_of(keeps), kept, zero), width);
        });
  }
};
