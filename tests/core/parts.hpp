// A fixture for functions whose vectors have a part for each rank.
#pragma once

#include <vector>

#include "tests/core/api.hpp"

namespace mq::test {

using Counts = std::vector<MPI_Count>;

class Parts : public Api {
 protected:
  Counts equal(MPI_Count each) const { return Counts(static_cast<std::size_t>(size), each); }
  // Every second part has no elements.
  Counts uneven(MPI_Count most) const {
    Counts counts;
    for (int r = 0; r < size; ++r) counts.push_back(r % 2 == 1 ? 0 : most + 3 * r);
    return counts;
  }
  std::size_t own(const Counts& counts) const {
    return static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
  }
};

}  // namespace mq::test
