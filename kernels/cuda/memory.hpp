// The arguments of the kernels that run memory rules (memory.cuh). The tests' GPU runs the host's rules in
// their place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/names.hpp"
#include "kernels/device.hpp"

namespace mq::kernels::memory_rows {

inline constexpr std::uint32_t kThreads = 256;

// One function of the rule with this number in memory/registry.def.
struct Run {
  MemoryTile tile;
  void* sum;  // of deliver
  std::uint32_t rule;
};

// The kernels by MemoryFunction and compute type.
inline constexpr std::array<NamesByType, 4> kNames{
    MQ_NAMES_BY_TYPE(memory_before, ), MQ_NAMES_BY_TYPE(memory_after, ), MQ_NAMES_BY_TYPE(memory_deliver, ),
    MQ_NAMES_BY_TYPE(memory_skip, )};

// x: of type `element`; the arrays: of its compute type.
struct Sums {
  const std::byte *x, *minus_h, *last;
  std::uint64_t n;
  double scale;
  double* sums;  // of the parts (memory_sums.hpp)
  Element element;
};

// Two messages of an encode, which become one payload.
struct Join {
  std::byte* payload;  // the first message is at payload + 8
  const std::byte*
      second;  // to be copied behind the first one; null: it is there, or there is none. 4-byte aligned
  const DeviceEncoded *first_encoded, *second_encoded;
  DeviceEncoded* encoded;  // of both
};

// Empty messages: x = base, or zeros.
struct Nothing {
  const std::byte* base;  // may be null
  std::byte* x;
  std::uint64_t bytes;
};

}  // namespace mq::kernels::memory_rows
