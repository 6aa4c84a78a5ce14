#include "bench/check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "bench/buffers.hpp"
#include "bench/elements.hpp"

namespace mq::bench {

bool all_agree(bool mine, MPI_Comm comm) {
  int agree = mine ? 1 : 0;
  PMPI_Allreduce(MPI_IN_PLACE, &agree, 1, MPI_INT, MPI_MIN, comm);
  return agree == 1;
}

Checker::Checker(const Generator& generator, kernels::Element element, std::uint64_t first,
                 std::uint64_t count, MPI_Comm comm)
    : element_(element), comm_(comm), count_(count) {
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &size_);
  const auto p = static_cast<std::uint64_t>(size_), r = static_cast<std::uint64_t>(rank_);
  begin_ = count / p * r + std::min(r, count % p);
  end_ = begin_ + count / p + (r < count % p ? 1 : 0);
  with_type(element, [&]<class T>(T) { make_reference<T>(generator, first); });
}

template <class T>
void Checker::make_reference(const Generator& generator, std::uint64_t first) {
  sum_.resize(end_ - begin_);
  magnitude_.resize(end_ - begin_);
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    long double sum = 0, magnitude = 0;
    for (int r = 0; r < size_; ++r) {
      const auto x = static_cast<double>(generator.value<T>(r, first + begin_ + i));
      sum += x;
      magnitude += std::abs(x);
    }
    sum_[i] = static_cast<double>(sum);
    magnitude_[i] = static_cast<double>(magnitude);
  }
}

bool Checker::replicas_equal(const void* result) const {
  const std::uint64_t hash = hash_bytes(result, count_ * kernels::element_bytes(element_));
  std::array<std::uint64_t, 2> extremes{hash, ~hash};  // the largest hash and, inverted, the smallest
  PMPI_Allreduce(MPI_IN_PLACE, extremes.data(), 2, MPI_UINT64_T, MPI_MAX, comm_);
  return extremes[0] == ~extremes[1];
}

template <class T>
Verdict Checker::compare_as(const T* result, bool exact) const {
  constexpr bool kDouble = std::is_same_v<T, double>, kHalf = sizeof(T) == 2;
  // A double's reference was itself rounded to double: one more rounding than the p - 1 of the sum.
  const double roundings = static_cast<double>(size_) - (kDouble ? 0.0 : 1.0);
  const double u = Rounding<std::conditional_t<kDouble, double, float>>::unit;
  const double gamma = roundings * u / (1.0 - roundings * u);
  double error2 = 0, sum2 = 0, result2 = 0, product = 0, largest = 0;
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    const double x = static_cast<double>(result[begin_ + i]), s = sum_[i], error = std::abs(x - s);
    double tolerance = gamma * magnitude_[i];
    if constexpr (kHalf)
      tolerance += std::max(Rounding<T>::unit * (std::abs(s) + tolerance), Rounding<T>::least / 2);
    const bool right = exact ? error <= tolerance : std::isfinite(x);
    if (!right) ++wrong;
    error2 += error * error;
    sum2 += s * s;
    result2 += x * x;
    product += x * s;
    largest = error > largest || std::isnan(error) ? error : largest;
  }
  std::array<double, 4> sums{error2, sum2, result2, product};
  PMPI_Allreduce(MPI_IN_PLACE, sums.data(), 4, MPI_DOUBLE, MPI_SUM, comm_);
  PMPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, comm_);
  PMPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, comm_);
  Verdict v;
  v.rel_l2 = sums[0] == 0 ? 0 : std::sqrt(sums[0] / sums[1]);
  v.max_abs = largest;
  v.snr_db = -20.0 * std::log10(v.rel_l2);
  v.cosine = sums[3] / std::sqrt(sums[1] * sums[2]);
  v.n_wrong = wrong;
  v.replicas_equal = replicas_equal(result);
  return v;
}

Verdict Checker::compare(const void* result, bool exact) const {
  return with_type(element_, [&]<class T>(T) { return compare_as(static_cast<const T*>(result), exact); });
}

}  // namespace mq::bench
