#include "bench/check.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/buffers.hpp"

namespace mq::bench {

int first_no(bool mine, MPI_Comm comm) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  int first = mine ? size : rank;
  PMPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm);
  return first;
}

bool all_agree(bool mine, MPI_Comm comm) {
  int size = 1;
  PMPI_Comm_size(comm, &size);
  return first_no(mine, comm) == size;
}

Checker::Checker(const Generator& generator, kernels::Element element, std::uint64_t first,
                 std::uint64_t count, MPI_Comm comm, mq::Collective collective)
    : element_(element), comm_(comm), collective_(collective) {
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &size_);
  owner_ = adds(collective) ? rank_ : (rank_ + 1) % size_;  // its part has come in a message
  slice_ = part_of(count, size_, owner_);
  if (collective == mq::Collective::bcast) owner_ = kRoot;
  output_ = output_of(collective, count, size_, rank_);
  with_type(element, [&]<class T>(T) { make_reference<T>(generator, first); });
}

template <class T>
void Checker::make_reference(const Generator& generator, std::uint64_t first) {
  sum_.resize(slice_.count);
  magnitude_.resize(slice_.count);
  const bool is_sum = adds(collective_);
  const int begin = is_sum ? 0 : owner_, end = is_sum ? size_ : owner_ + 1;
  const bool has_whole = is_sum || has_root(collective_);  // the owner has the whole vector
  const std::uint64_t at = first + (has_whole ? slice_.begin : 0);
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    long double sum = 0, magnitude = 0;
    for (int r = begin; r < end; ++r) {
      const auto x = static_cast<double>(generator.value<T>(r, at + i));
      sum += x;
      magnitude += std::abs(x);
    }
    sum_[i] = static_cast<double>(sum);
    magnitude_[i] = static_cast<double>(magnitude);
  }
}

bool equal_on_all(std::uint64_t value, MPI_Comm comm) {
  std::array<std::uint64_t, 2> extremes{value, ~value};  // the largest and, inverted, the smallest
  PMPI_Allreduce(MPI_IN_PLACE, extremes.data(), 2, MPI_UINT64_T, MPI_MAX, comm);
  return extremes[0] == ~extremes[1];
}

ResultErrors ErrorSums::over_ranks(MPI_Comm comm) const {
  std::array<double, 4> sums{error2_, sum2_, result2_, product_};
  double largest = largest_;
  std::int64_t wrong = wrong_;
  PMPI_Allreduce(MPI_IN_PLACE, sums.data(), 4, MPI_DOUBLE, MPI_SUM, comm);
  PMPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, comm);
  PMPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, comm);
  ResultErrors v;
  v.rel_l2 = sums[0] == 0 ? 0 : std::sqrt(sums[0] / sums[1]);
  v.max_abs = largest;
  v.snr_db = -20.0 * std::log10(v.rel_l2);
  v.cosine = sums[3] / std::sqrt(sums[1] * sums[2]);
  v.n_wrong = wrong;
  return v;
}

// In messages that every MPI can count.
template <class T>
std::vector<T> Checker::slice_of_root(const T* result) const {
  constexpr std::size_t kMost = std::size_t{1} << 27;  // elements
  constexpr int kTag = 0;
  std::vector<T> mine(slice_.count);
  if (rank_ == kRoot) std::copy_n(result + slice_.begin, slice_.count, mine.data());
  const auto each_piece = [&](std::size_t count, const auto& f) {
    for (std::size_t at = 0; at < count; at += kMost)
      f(at, static_cast<int>(std::min(kMost, count - at) * sizeof(T)));
  };
  for (int r = 0; rank_ == kRoot && r < size_; ++r) {
    const Part part = part_of(output_.count, size_, r);
    if (r == kRoot) continue;
    each_piece(part.count, [&](std::size_t at, int bytes) {
      PMPI_Send(result + part.begin + at, bytes, MPI_BYTE, r, kTag, comm_);
    });
  }
  if (rank_ != kRoot)
    each_piece(slice_.count, [&](std::size_t at, int bytes) {
      PMPI_Recv(mine.data() + at, bytes, MPI_BYTE, kRoot, kTag, comm_, MPI_STATUS_IGNORE);
    });
  return mine;
}

template <class T>
ResultErrors Checker::compare_as(const T* result, bool exact) const {
  ErrorSums errors;
  std::vector<T> of_root;
  if (collective_ == mq::Collective::reduce) of_root = slice_of_root(result);
  const T* const slice =
      collective_ == mq::Collective::reduce ? of_root.data() : result + (slice_.begin - output_.begin);
  const int terms = adds(collective_) ? size_ : 1;
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    const auto x = static_cast<double>(slice[i]);
    errors.add(x, sum_[i], exact ? within_rounding<T>(x, sum_[i], magnitude_[i], terms) : std::isfinite(x));
  }
  ResultErrors v = errors.over_ranks(comm_);
  const std::size_t bytes = output_.count * kernels::element_bytes(element_);
  v.replicas_equal = !has_replicas(collective_) || equal_on_all(hash_bytes(result, bytes), comm_);
  // MPI may add in another order on each rank, but nothing excuses copies that differ.
  if (exact && !adds(collective_) && !v.replicas_equal) v.n_wrong = std::max<std::int64_t>(v.n_wrong, 1);
  return v;
}

ResultErrors Checker::compare(const void* result, bool exact) const {
  return with_type(element_, [&]<class T>(T) { return compare_as(static_cast<const T*>(result), exact); });
}

}  // namespace mq::bench
