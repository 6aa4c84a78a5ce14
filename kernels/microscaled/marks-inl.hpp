// How blocks of small floats send elements that are not finite: in a marked block, which its scale shows,
// each code is a mark in place of a number. This case is rare, so the code is simple.
#pragma once
#include "kernels/host/packed-inl.hpp"

// The marks of these lanes of v; 0 in the others. With a residual, finite elements stay in it and decode to
// 0. Without a residual they would be lost unnoticed, so they decode to NaN. Adds the number of lanes that
// are not finite.
template <class T>
Bytes mark_codes(const Lanes<T>& v, std::uint32_t lanes, bool has_residual, std::uint64_t& nonfinite) {
  T lane[kLanes];
  v.store(reinterpret_cast<std::byte*>(lane), Whole{});
  std::byte marks[kLanes] = {};
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(lanes));
    const bool finite = std::isfinite(lane[i]);
    nonfinite += !finite;
    marks[i] = static_cast<std::byte>(finite                ? (has_residual ? LaneMark::kept : LaneMark::nan)
                                      : std::isnan(lane[i]) ? LaneMark::nan
                                      : lane[i] > 0         ? LaneMark::above
                                                            : LaneMark::below);
  }
  return load_bytes(marks);
}

// `decoded`, with the values of these marks in these lanes. Clears `ok` if a code is no mark, or if nothing
// is marked.
template <class T>
Lanes<T> with_marks(const Lanes<T>& decoded, const Bytes& codes, std::uint32_t lanes, bool& ok) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  constexpr T kValues[]{T{0}, std::numeric_limits<T>::quiet_NaN(), kInf, -kInf};
  std::byte code[kLanes];
  store_bytes(code, codes);
  T lane[kLanes];
  decoded.store(reinterpret_cast<std::byte*>(lane), Whole{});
  bool any = false;
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(lanes));
    const auto mark = std::to_integer<std::size_t>(code[i]);
    ok &= mark < std::size(kValues);
    any |= mark != 0;
    lane[i] = kValues[mark % std::size(kValues)];
  }
  ok &= any;
  return Lanes<T>::load(reinterpret_cast<const std::byte*>(lane), Whole{});
}
