// Is the result right, and how far off? The exact sum is made again from the generator, by each rank for its
// own slice of the vector: p n / p elements of work a rank, whatever p. The hash of the whole result, equal
// on all ranks, makes the slices speak for every replica.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "bench/data.hpp"
#include "bench/rows.hpp"
#include "kernels/codec.hpp"

namespace mq::bench {

struct Verdict {
  double rel_l2 = kUnknown, max_abs = kUnknown, snr_db = kUnknown, cosine = kUnknown;
  std::int64_t n_wrong = -1;
  bool replicas_equal = true;
};

class Checker {
 public:
  // For the sum over the ranks of comm of elements [first, first + count) of the generator. Collective.
  Checker(const Generator& generator, kernels::Element element, std::uint64_t first, std::uint64_t count,
          MPI_Comm comm);
  // exact: wrong is an element that is not within gamma_m sum |x_r|, gamma_m = m u / (1 - m u) (Higham 2002,
  // section 4.2): what any order of m additions may do. Half types are summed in float: the u of float, and
  // one rounding of the sum. Else wrong is an element that is not finite. Collective.
  Verdict compare(const void* result, bool exact) const;

 private:
  bool replicas_equal(const void* result) const;
  template <class T>
  void make_reference(const Generator& generator, std::uint64_t first);
  template <class T>
  Verdict compare_as(const T* result, bool exact) const;

  kernels::Element element_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::uint64_t count_, begin_ = 0, end_ = 0;  // my slice
  std::vector<double> sum_, magnitude_;
};

// The same answer on every rank: did all say yes?
bool all_agree(bool mine, MPI_Comm comm);

}  // namespace mq::bench
