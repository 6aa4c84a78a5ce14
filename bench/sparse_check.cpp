#include "bench/sparse_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "bench/buffers.hpp"
#include "bench/elements.hpp"

namespace mq::bench {
namespace {

// Calls f with a T of one of the two element types of sparse reductions.
template <class F>
void with_sparse_type(kernels::Element element, const F& f) {
  if (element == kernels::Element::f64)
    f(double{});
  else
    f(float{});
}

template <class T>
void add_list(SparseSum& all, const SparseInputs& inputs, int rank, std::uint64_t number) {
  const std::vector<std::int64_t> list = inputs.support.indices(rank, number);
  SparseSum merged;
  merged.stride = all.stride;
  merged.indices.reserve(all.indices.size() + list.size());
  std::set_union(all.indices.begin(), all.indices.end(), list.begin(), list.end(),
                 std::back_inserter(merged.indices));
  merged.sum.reserve(merged.indices.size() * all.stride);
  merged.magnitude.reserve(merged.indices.size() * all.stride);
  std::size_t a = 0, b = 0;
  for (const std::int64_t index : merged.indices) {
    const bool had = a < all.indices.size() && all.indices[a] == index;
    const bool adds = b < list.size() && list[b] == index;
    for (std::uint64_t j = 0; j < all.stride; ++j) {
      const double x = adds ? static_cast<double>(inputs.value<T>(rank, number, index, j)) : 0;
      merged.sum.push_back((had ? all.sum[a * all.stride + j] : 0) + x);
      merged.magnitude.push_back((had ? all.magnitude[a * all.stride + j] : 0) + std::abs(x));
    }
    a += had ? 1 : 0;
    b += adds ? 1 : 0;
  }
  all = std::move(merged);
}

}  // namespace

std::vector<std::byte> SparseInputs::list_values(int rank, std::uint64_t number,
                                                 std::span<const std::int64_t> indices) const {
  std::vector<std::byte> bytes(indices.size() * shape.width());
  with_sparse_type(shape.element, [&]<class T>(T) {
    auto* out = reinterpret_cast<T*>(bytes.data());
    for (const std::int64_t index : indices)
      for (std::uint64_t j = 0; j < shape.stride; ++j) *out++ = value<T>(rank, number, index, j);
  });
  return bytes;
}

SparseSum sum_of_lists(const SparseInputs& inputs, std::uint64_t number, int ranks) {
  SparseSum all;
  all.stride = inputs.shape.stride;
  with_sparse_type(inputs.shape.element, [&]<class T>(T) {
    for (int r = 0; r < ranks; ++r) add_list<T>(all, inputs, r, number);
  });
  return all;
}

SparseChecker::SparseChecker(SparseSum reference, const SparseShape& shape, MPI_Comm comm)
    : reference_(std::move(reference)), shape_(shape), comm_(comm) {
  PMPI_Comm_size(comm, &ranks_);
}

template <class T>
void SparseChecker::add(ErrorSums& errors, std::span<const std::int64_t> indices, const T* values) const {
  std::size_t at = 0;
  const std::size_t n = reference_.indices.size(), stride = shape_.stride;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    while (at < n && reference_.indices[at] < indices[i]) ++at;
    const bool held = at < n && reference_.indices[at] == indices[i];
    for (std::size_t j = 0; j < stride; ++j) {
      const double x = static_cast<double>(values[i * stride + j]);
      const double sum = held ? reference_.sum[at * stride + j] : 0;
      const double magnitude = held ? reference_.magnitude[at * stride + j] : 0;
      errors.add(x, sum, within_rounding<T>(x, sum, magnitude, ranks_));
    }
  }
}

template <class T>
void SparseChecker::add_vector(ErrorSums& errors, const T* vector, bool exact) const {
  const std::size_t stride = shape_.stride;
  std::size_t at = 0;
  for (std::uint64_t index = 0; index < shape_.size; ++index) {
    const bool held =
        at < reference_.indices.size() && static_cast<std::uint64_t>(reference_.indices[at]) == index;
    for (std::size_t j = 0; j < stride; ++j) {
      const double x = static_cast<double>(vector[index * stride + j]);
      const double sum = held ? reference_.sum[at * stride + j] : 0;
      const double magnitude = held ? reference_.magnitude[at * stride + j] : 0;
      errors.add(x, sum, exact ? within_rounding<T>(x, sum, magnitude, ranks_) : std::isfinite(x));
    }
    at += held ? 1 : 0;
  }
}

ResultErrors SparseChecker::compare_vector(const void* vector, bool exact) const {
  ErrorSums errors;
  with_sparse_type(shape_.element,
                   [&]<class T>(T) { add_vector(errors, static_cast<const T*>(vector), exact); });
  ResultErrors v = errors.over_ranks(comm_);
  v.replicas_equal = equal_on_all(hash_bytes(vector, shape_.size * shape_.width()), comm_);
  return v;
}

ResultErrors SparseChecker::compare_list(std::span<const std::int64_t> indices, const void* values) const {
  ErrorSums errors;
  with_sparse_type(shape_.element, [&]<class T>(T) { add(errors, indices, static_cast<const T*>(values)); });
  if (!std::equal(indices.begin(), indices.end(), reference_.indices.begin(), reference_.indices.end()))
    errors.add_wrong(std::max<std::size_t>(1, reference_.indices.size()));
  ResultErrors v = errors.over_ranks(comm_);
  const std::uint64_t hash = hash_bytes(indices.data(), indices.size_bytes());
  v.replicas_equal = equal_on_all(hash ^ hash_bytes(values, indices.size() * shape_.width()), comm_);
  return v;
}

ResultErrors SparseChecker::compare_wanted(std::span<const std::int64_t> indices, const void* values) const {
  ErrorSums errors;
  with_sparse_type(shape_.element, [&]<class T>(T) { add(errors, indices, static_cast<const T*>(values)); });
  ResultErrors v = errors.over_ranks(comm_);
  v.replicas_equal = same_bits(indices, values);
  return v;
}

// Ranks want different indices. So for each value of the union it collects the bits that are 1 on some rank
// and the bits that are 0 on some rank. If all ranks that have the value have the same bits, no bit is in
// both sets.
bool SparseChecker::same_bits(std::span<const std::int64_t> indices, const void* values) const {
  const std::size_t width = shape_.width(), element = kernels::element_bytes(shape_.element);
  std::vector<std::uint64_t> seen(2 * reference_.sum.size(), 0);
  std::size_t at = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    while (at < reference_.indices.size() && reference_.indices[at] < indices[i]) ++at;
    if (at == reference_.indices.size() || reference_.indices[at] != indices[i]) continue;
    for (std::size_t j = 0; j < shape_.stride; ++j) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, static_cast<const std::byte*>(values) + i * width + j * element, element);
      seen[2 * (at * shape_.stride + j)] = bits;
      seen[2 * (at * shape_.stride + j) + 1] = ~bits;
    }
  }
  constexpr std::size_t kPiece = std::size_t{1} << 24;  // fits the int count of MPI
  for (std::size_t i = 0; i < seen.size(); i += kPiece)
    PMPI_Allreduce(MPI_IN_PLACE, &seen[i], static_cast<int>(std::min(kPiece, seen.size() - i)), MPI_UINT64_T,
                   MPI_BOR, comm_);
  bool same = true;
  for (std::size_t i = 0; i < seen.size(); i += 2) same = same && (seen[i] & seen[i + 1]) == 0;
  return same;
}

}  // namespace mq::bench
