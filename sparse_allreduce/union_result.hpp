// From merged lists to the caller's output.
#pragma once

#include "sparse_allreduce/frame.hpp"
#include "sparse_allreduce/union_job.hpp"

namespace mq::sparse {

// bad_argument if a list of this many entries has no room in the output.
Status check_room(const UnionOutput& output, std::uint64_t count);

// What a vector holds where a list has no entry: see absent() and identity() of the operations.
enum class Background : std::uint8_t { absent, identity };

// Makes a range of a vector out of the list of what is in it. vector: of index 0.
void spread(const Entry& entry, const List& list, Range range, Background background, std::byte* vector);

// Puts a list, all of the result that is in a range, in the output: from entry `at` of the list on, or at its
// indices. What stands there already is left.
void deliver(const UnionJob& job, const List& list, Range range, std::uint64_t at);

// The values at some indices of a vector.
void collect(const Entry& entry, std::span<const std::uint64_t> indices, const std::byte* vector,
             std::byte* values);

}  // namespace mq::sparse
