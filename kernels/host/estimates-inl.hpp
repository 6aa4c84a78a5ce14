// What rules with estimates share (MemoryRule::keeps_estimates): EF21, LAG, CLAG and the other three-point
// compressors (Richtarik et al., ICML 2022). x is a rank's vector, h its estimate of x, H the sum of all
// ranks' estimates and y the x of the call before. Arrays: -h, H, y.
//
// A rank sends C(x - h), or C(x - y), and adds what it decodes to h. All ranks add the sum of the messages to
// H. What the encode of a sum loses is taken from the h of the rank that encodes it, because codecs add
// losses to the first array. So H is the sum of all h over every plan, up to rounding. In each call an h
// rounds by up to an ulp of x - h and one of x, also where nothing is sent of it, and H does not follow: a
// vector that was once very large leaves an h that is off by its rounding until the next exact call.
//
// In a collective that adds nothing up (MemoryRule::mirrors) each element belongs to one rank, so H is the
// estimate itself. There is no array of h then (it is null), and h and H cannot differ by rounding.
#pragma once
#include "kernels/host/memory-inl.hpp"

struct Estimates {
  static constexpr std::size_t kEstimate = 0, kSum = 1, kLast = 2;  // the arrays

  // x - h is encoded: nothing has to be prepared. In an exact restart it is x and what another rule has left.
  template <class T>
  static MQ_RULE Operand from_estimate(const MemoryTile& tile) {
    using L = Lanes<T>;
    if (tile.array[kEstimate] == nullptr) return from_array<T>(tile, kSum);
    if (!tile.exact_restart) return {tile.x, tile.array[kEstimate]};
    const L zero = L::all(T{0});
    const auto x = array_at<T>(tile.x);
    const auto minus_h = array_at<T>(tile.array[kEstimate]), all = array_at<T>(tile.scratch);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          x.ask_next(g, tile.n), minus_h.ask_next(g, tile.n);
          all.put(g, x.get(g, width) + minus_h.get(g, width), width);
          minus_h.put(g, zero, width);
        });
    return {tile.scratch, tile.array[kEstimate]};
  }

  // h += decoded: the codec has left x - h - decoded in place of -h, so h is now x less that, without a copy
  // of the old h. Where x is near h, x - h is exact, and an h of which nothing is sent stays as it is. If x
  // was not finite, deliver() makes h zero on every rank. If the sum overflowed, near the greatest number of
  // the type, H is wrong until the next exact call.
  template <class T>
  static MQ_RULE void learn(const MemoryTile& tile) {
    using L = Lanes<T>;
    if (tile.array[kEstimate] == nullptr) return;
    const L zero = L::all(T{0});
    const auto x = array_at<T>(tile.exact_restart ? static_cast<const void*>(tile.scratch) : tile.x);
    const auto left = array_at<T>(tile.array[kEstimate]);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          x.ask_next(g, tile.n), left.ask_next(g, tile.n);
          const L newest = x.get(g, width) - left.get(g, width);
          left.put(g, zero - L::select(newest.finite(), newest, zero), width);
        });
  }

  // x - y is encoded. What the codec leaves goes to the scratch memory.
  template <class T>
  static MQ_RULE Operand from_last(const MemoryTile& tile) {
    return from_array<T>(tile, kLast);
  }

  // The same with the array of this number in place of y.
  template <class T>
  static MQ_RULE Operand from_array(const MemoryTile& tile, std::size_t number) {
    using L = Lanes<T>;
    const L zero = L::all(T{0});
    const auto x = array_at<T>(tile.x);
    const auto y = array_at<T>(tile.array[number]), left = array_at<T>(tile.scratch);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          x.ask_next(g, tile.n), y.ask_next(g, tile.n);
          left.put(g, zero - y.get(g, width), width);
        });
    return {tile.x, tile.scratch};
  }

  // h += decoded, after from_last.
  template <class T>
  static MQ_RULE void learn_from_last(const MemoryTile& tile) {
    using L = Lanes<T>;
    const auto x = array_at<T>(tile.x);
    const auto minus_h = array_at<T>(tile.array[kEstimate]), y = array_at<T>(tile.array[kLast]),
               left = array_at<T>(tile.scratch);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          minus_h.ask(g);
          const L old = minus_h.get(g, width);
          const L newest = old - ((x.get(g, width) - y.get(g, width)) - left.get(g, width));
          minus_h.put(g, L::select(newest.finite(), newest, old), width);
        });
  }

  // y = x
  template <class T>
  static MQ_RULE void keep_last(const MemoryTile& tile) {
    using L = Lanes<T>;
    const L zero = L::all(T{0});
    const auto x = array_at<T>(tile.x);
    const auto y = array_at<T>(tile.array[kLast]);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          y.ask_next(g, tile.n);
          const L newest = x.get(g, width);
          y.put(g, L::select(newest.finite(), newest, zero), width);
        });
  }

  // H += sum, which is the result. Where it is not finite, H, all h and all y start at zero again.
  template <class T>
  static MQ_RULE void deliver(const MemoryTile& tile, void* sum) {
    using L = Lanes<T>;
    const L zero = L::all(T{0});
    const auto minus_h = array_at<T>(tile.array[kEstimate]), all_h = array_at<T>(tile.array[kSum]),
               out = array_at<T>(sum);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          all_h.ask(g);
          const L newest = all_h.get(g, width) + out.get(g, width);
          const auto finite = newest.finite();
          out.put(g, newest, width);
          all_h.put(g, L::select(finite, newest, zero), width);
          if ((finite.bits() & width.bits) != width.bits) [[unlikely]] {
            if (tile.array[kEstimate] == nullptr) return;
            minus_h.put(g, L::select(finite, minus_h.get(g, width), zero), width);
            if (tile.array[kLast] == nullptr) return;
            const auto y = array_at<T>(tile.array[kLast]);
            y.put(g, L::select(finite, y.get(g, width), zero), width);
          }
        });
  }
};

// The parameters that all rules with estimates have.
inline constexpr ParamSpec kResync{
    "resync",
    "an exact call comes after so many others, against rounding that adds up; 0: only the first call is exact",
    ParamKind::integer,
    1000,
    0,
    1e9};
inline constexpr ParamSpec kMostSkipped{
    "max", "a rank sends nothing in at most so many calls in a row", ParamKind::integer, 10, 0, 1e9};
