// From merged lists to the caller's output.
#pragma once

#include "sparse_allreduce/union_job.hpp"

namespace mq::sparse {

// bad_argument if a list of this many entries has no room in the output.
Status check_room(const UnionOutput& output, std::uint64_t count);

// Sets all of a dense output to the operation's absent().
void fill_absent(const UnionJob& job);

// Puts a list that is part of the result in the output: from entry `at` of the list on, or at its indices.
// Parts that stand there already are left.
void deliver(const UnionJob& job, const List& list, std::uint64_t at);

// Copies the values of a list to their places in a vector, or back.
void scatter(const Entry& entry, const List& list, std::byte* vector);
void collect(const Entry& entry, std::span<const std::uint64_t> indices, const std::byte* vector,
             std::byte* values);

}  // namespace mq::sparse
