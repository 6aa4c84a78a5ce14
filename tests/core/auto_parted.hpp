// A fixture for auto in the collectives in which ranks have different parts.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/parted_requests.hpp"

namespace mq::test {

class AutoParted : public PartedRequests {
 protected:
  // MPI_Reduce of MPICH 4.0.2 crashes with a long vector in place at a root that is not rank 0.
  int root_of(Parted function, bool in_place, int call) const {
    return function == Parted::reduce && in_place ? 0 : call % size;
  }
  // What MPI makes of the same numbers.
  std::vector<float> exact(PartedCase c, int turn) const {
    fill(c, turn);
    EXPECT_EQ(run(c, Form::blocking, comm, Info{{"mpiq_method", "mpi"}}), MPI_SUCCESS);
    return result(c);
  }
  static double relative_error(const std::vector<float>& y, const std::vector<float>& wanted) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double e = static_cast<double>(y[i]) - static_cast<double>(wanted[i]);
      error += e * e;
      norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
    }
    return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
  }
  double greatest_error(const std::vector<float>& y, const std::vector<float>& wanted) const {
    double greatest = 0;
    for (std::size_t i = 0; i < y.size(); ++i)
      greatest = std::max(greatest, std::abs(static_cast<double>(y[i]) - static_cast<double>(wanted[i])));
    return greatest;
  }
  std::uint64_t compressed() const {
    MPIQ_Stats s = MPIQ_STATS_INIT;
    EXPECT_EQ(MPIQ_Comm_get_stats(comm, &s), MPI_SUCCESS);
    return s.compressed_calls;
  }
  bool alike(Parted function, const std::vector<float>& y) const {
    return adds(function) || same_on_all_ranks(y);
  }
};

}  // namespace mq::test
