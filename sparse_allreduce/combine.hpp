// The caller's values in the order of an index set: those of duplicates reduced in the order they stand in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "sparse_allreduce/index_set.hpp"
#include "sparse_allreduce/sparse.hpp"

namespace mq::sparse {

// set.indices.size() * stride values at `to`, of the caller's values; set.place is not empty.
template <class T, class O>
void combine_into(const IndexSet& set, const std::byte* values, std::size_t stride, T* to) {
  std::fill_n(to, set.indices.size() * stride, O::template identity<T>());
  for (std::size_t i = 0; i < set.place.size(); ++i) {
    T* const sums = to + set.place[i] * stride;
    for (std::size_t j = 0; j < stride; ++j) {
      T value;
      std::memcpy(&value, values + (i * stride + j) * sizeof(T), sizeof(T));
      sums[j] = O::apply(sums[j], value);
    }
  }
}

// The same in memory of the workspace. Throws std::bad_alloc.
inline const std::byte* combine(kernels::Element element, Op op, const IndexSet& set, const std::byte* values,
                                std::size_t stride, Workspace& memory) {
  return dispatch(element, op, [&]<class T, class O>() {
    const std::span<T> to = memory.take<T>(set.indices.size() * stride);
    combine_into<T, O>(set, values, stride, to.data());
    return reinterpret_cast<const std::byte*>(to.data());
  });
}

}  // namespace mq::sparse
