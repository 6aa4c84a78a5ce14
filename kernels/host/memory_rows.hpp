// What the objects of memory rules define (object.cpp.in) and registry.cpp joins into a table. Apart from
// rows.hpp, so that a new rule does not compile the codecs again.
#pragma once

#include <array>

#include "kernels/memory.hpp"
#include "kernels/memory_sums.hpp"

namespace mq::kernels {

// The functions of one rule for one instruction set, by compute type.
using MemoryRow = std::array<MemoryOps, kComputeElements.size()>;

#define MQ_MEMORY(name, Type) extern const MemoryRow memory_##name;
namespace scalar {
#include "kernels/memory/registry.def"
}  // namespace scalar
#ifndef MQ_SCALAR_ONLY  // else rows.hpp makes the others names of scalar
namespace avx2 {
#  include "kernels/memory/registry.def"
}  // namespace avx2
namespace avx512 {
#  include "kernels/memory/registry.def"
}  // namespace avx512
#endif
#undef MQ_MEMORY

// What does not depend on the instruction set: everything of a rule but `ops`.
#define MQ_MEMORY(name, Type) MemoryRule describe_memory_##name() noexcept;
#include "kernels/memory/registry.def"
#undef MQ_MEMORY

}  // namespace mq::kernels
