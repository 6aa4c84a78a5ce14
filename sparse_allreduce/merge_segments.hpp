// Merges lists by segments; see merge.hpp.
#pragma once

#include "sparse_allreduce/merge.hpp"

namespace mq::sparse {

// The destination of a merge, with room for merge_room entries.
struct MergeOutput {
  std::uint64_t* indices = nullptr;
  std::byte* values = nullptr;
};

// Like merge(). Throws std::bad_alloc.
[[nodiscard]] bool merge_by_segments(const Entry& entry, std::span<const Operand> sources, std::uint64_t low,
                                     std::uint64_t high, Workspace& memory, const MergeOutput& output,
                                     std::size_t& count);

}  // namespace mq::sparse
