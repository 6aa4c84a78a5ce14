// zerorun: sends the elements that are not zero, exactly, and their positions. It is lossless, for vectors
// with many zeros: gradients of embeddings, sparse layers, halos. The idea is from Hofmann and Ruenger: MPI
// reduction operations for sparse floating-point data, EuroPVM/MPI 2008. They send the lengths of runs; here
// bits mark the positions, so the time does not depend on the pattern. Zero means that all bits are zero: -0
// is sent.
//
// Wire, per block of 16384 elements: the number of elements sent. If that is all of them, the elements
// follow. Otherwise there follow a bit for each group of 32 elements, which is 1 if the group has elements to
// send, then these elements, then 32 bits for each such group. For floats this is 0.004 bytes per element if
// all are zero, 0.016 if one in 1000 is not zero, 0.16 if one in 33 is not zero, and never more than 4 bytes
// per block plus the elements. Half types are refused, because they would be sent as floats (see raw).
#pragma once
#include "kernels/zeros/host-inl.hpp"

struct ZeroRun {
  static constexpr std::string_view kName = "zerorun";
  static constexpr std::string_view kWhat =
      "the elements that are not zero, lossless (Hofmann, Ruenger 2008)";
  static constexpr std::uint16_t kId = 7;
  static constexpr bool kLossless = true;
  template <class T>
  using Family = ZeroRuns<T, ZeroRun>;

  // Parameters.
  static constexpr std::array<ParamSpec, 0> kSpecs{};

  // Wire format.
  static constexpr std::size_t kBlock = 16384;
  static constexpr std::size_t block(const Params&) { return kBlock; }
};
