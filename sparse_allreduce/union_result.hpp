// Writes merged lists to the caller's output.
#pragma once

#include "sparse_allreduce/frame.hpp"
#include "sparse_allreduce/union_job.hpp"

namespace mq::sparse {

// bad_argument if the output has no room for this many entries.
Status check_room(const UnionOutput& output, std::uint64_t count);

// The value of a vector where a list has no entry: absent() or identity() of the operation.
enum class Background : std::uint8_t { absent, identity };

// Writes a range of a vector from the list of its entries. `vector` points to index 0.
void spread(const Entry& entry, const List& list, Range range, Background background, std::byte* vector);

// Writes a list to the output: from entry `at` of an output list on, or at its indices of an output vector.
// The list must hold all entries of the result within the range. Data that is already in place is not copied.
void deliver(const UnionJob& job, const List& list, Range range, std::uint64_t at);

// Copies the values at some indices of a vector.
void collect(const Entry& entry, std::span<const std::uint64_t> indices, const std::byte* vector,
             std::byte* values);

}  // namespace mq::sparse
