// How blocks of small floats send elements that are not finite: in a marked block, which its scale shows,
// each code is a mark in place of a number. This case is rare, so the code is simple.
#pragma once
#include "kernels/host/packed-inl.hpp"

// The marks of these lanes of v (microscaled.hpp); 0 in the others. Adds the number of lanes that are not
// finite.
template <class T>
Bytes mark_codes(const Lanes<T>& v, std::uint32_t lanes, bool has_residual, std::uint64_t& nonfinite) {
  T lane[kLanes];
  v.store(reinterpret_cast<std::byte*>(lane), Whole{});
  std::byte marks[kLanes] = {};
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(lanes));
    nonfinite += !is_finite(lane[i]);
    marks[i] = std::byte{lane_mark(lane[i], has_residual)};
  }
  return load_bytes(marks);
}

// `decoded`, with the values of these marks in these lanes. Clears `ok` if a code is no mark, or if nothing
// is marked.
template <class T>
Lanes<T> with_marks(const Lanes<T>& decoded, const Bytes& codes, std::uint32_t lanes, bool& ok) {
  std::byte code[kLanes];
  store_bytes(code, codes);
  T lane[kLanes];
  decoded.store(reinterpret_cast<std::byte*>(lane), Whole{});
  bool any = false;
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(lanes));
    const auto mark = std::to_integer<std::uint32_t>(code[i]);
    ok &= is_lane_mark(mark);
    any |= mark != 0;
    lane[i] = lane_mark_value<T>(mark);
  }
  ok &= any;
  return Lanes<T>::load(reinterpret_cast<const std::byte*>(lane), Whole{});
}
