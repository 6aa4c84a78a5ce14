// Checks whether a result is right, and how large its error is. Each rank makes the exact sum of its own
// slice of the vector again from the generator. That is p n / p elements of work per rank, for every p. The
// hash of the whole result is equal on all ranks, so the slices together check every rank's copy. Of a
// reduce-scatter the slice is what the rank gets. Of an allgather it is the part of another rank, as that
// rank's generator makes it. The root of a reduction, which alone has a result, gives each rank its slice of
// it.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "bench/data.hpp"
#include "bench/elements.hpp"
#include "bench/parts.hpp"
#include "bench/rows.hpp"
#include "kernels/codec.hpp"

namespace mq::bench {

struct ResultErrors {
  double rel_l2 = kUnknown, max_abs = kUnknown, snr_db = kUnknown, cosine = kUnknown;
  std::int64_t n_wrong = -1;
  bool replicas_equal = true;
};

// What is known of the errors of many elements, on one rank and then on all.
class ErrorSums {
 public:
  void add(double x, double sum, bool right) {
    const double error = std::abs(x - sum);
    if (!right) ++wrong_;
    error2_ += error * error;
    sum2_ += sum * sum;
    result2_ += x * x;
    product_ += x * sum;
    largest_ = error > largest_ || std::isnan(error) ? error : largest_;
  }
  void add_wrong(std::size_t n) { wrong_ += static_cast<std::int64_t>(n); }
  ResultErrors over_ranks(MPI_Comm comm) const;  // everything except replicas_equal. Collective

 private:
  double error2_ = 0, sum2_ = 0, result2_ = 0, product_ = 0, largest_ = 0;
  std::int64_t wrong_ = 0;
};

// Whether x is a possible result of adding, in any order, p numbers whose sum is `sum` and whose magnitudes
// have the sum `magnitude`.
template <class T>
bool within_rounding(double x, double sum, double magnitude, int p) {
  constexpr bool kDouble = std::is_same_v<T, double>, kHalf = sizeof(T) == 2;
  // For doubles the reference is a rounded double too. So there is one rounding more than the p - 1 of the
  // sum.
  const double roundings = static_cast<double>(p) - (kDouble ? 0.0 : 1.0);
  const double u = Rounding<std::conditional_t<kDouble, double, float>>::unit;
  double tolerance = roundings * u / (1.0 - roundings * u) * magnitude;
  if constexpr (kHalf)
    tolerance += std::max(Rounding<T>::unit * (std::abs(sum) + tolerance), Rounding<T>::least / 2);
  return std::abs(x - sum) <= tolerance;
}

bool equal_on_all(std::uint64_t value, MPI_Comm comm);  // Collective

class Checker {
 public:
  // Checks sums over the ranks of comm, of elements [first, first + count) of the generator. Of an allgather
  // of count elements each rank brings as many elements, from the first one on, as its part has. Collective.
  Checker(const Generator& generator, kernels::Element element, std::uint64_t first, std::uint64_t count,
          MPI_Comm comm, mq::Collective collective = mq::Collective::allreduce);
  // If exact, an element is wrong if it is not within gamma_m sum |x_r| of the sum, where gamma_m = m u / (1
  // - m u) (Higham 2002, section 4.2). This is the bound for m additions in any order. Half types are summed
  // in float: u is the unit roundoff of float, and the sum is rounded once more. A gathered element is a sum
  // of one number. If not exact, an element is wrong if it is not finite. result: what this rank got.
  // Collective.
  ResultErrors compare(const void* result, bool exact) const;

 private:
  template <class T>
  void make_reference(const Generator& generator, std::uint64_t first);
  template <class T>
  ResultErrors compare_as(const T* result, bool exact) const;
  template <class T>
  std::vector<T> slice_of_root(const T* result) const;

  kernels::Element element_;
  MPI_Comm comm_;
  mq::Collective collective_;
  int rank_ = 0, size_ = 1;
  int owner_ = 0;        // the rank whose part or vector is checked here
  Part slice_, output_;  // what is checked here, and what this rank gets
  std::vector<double> sum_, magnitude_;
};

// The first rank whose `mine` is false, or the number of ranks if there is none. The same on every rank.
// Collective.
int first_no(bool mine, MPI_Comm comm);
bool all_agree(bool mine, MPI_Comm comm);

}  // namespace mq::bench
