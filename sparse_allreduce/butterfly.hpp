// The communication pattern of a nested butterfly: which rank exchanges which ranges with which others. This
// file knows neither lists nor messages. The layers have degrees d_0, d_1 ...; their product M is at most the
// number of ranks P.
//
// The index space is cut into M ranges, one for each rank. A rank number is written in mixed radix; its first
// digit differs between neighbouring ranks, which often share a node. In layer l, the ranks that differ only
// in digit l form a group. Before the layer they share one range. They cut it into d_l parts, and each rank
// keeps the part of its digit. So after layer l a rank is responsible for 1 / (d_0 ... d_l) of the indices,
// and after the last layer for 1 / M.
//
// If M < P, a first step (the fold) comes before all layers: rank M + i gives everything to rank i and keeps
// nothing. So a rank has sum(d_l - 1) peers, all different, and one more if it takes part in the fold.
//
// Source: Zhao and Canny, Kylix, ICPP 2014, section III. The paper assigns indices by residue; here ranges
// are contiguous, so that parts of a sorted list are contiguous.
#pragma once

#include <span>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::sparse {

// What one rank does in one layer. Ranges are numbered in ascending order of indices. Member j's part is the
// ranges [cuts[j], cuts[j + 1]).
struct Stage {
  int number = 0;            // 0: the fold; 1, 2 ...: the layers. Equal on all ranks.
  std::vector<int> members;  // ranks, in the order in which their values are combined
  std::vector<int> cuts;     // members.size() + 1
  std::size_t me = 0;        // members[me] is this rank
};

// Checks whether this many ranks can use the degrees. Each degree is at least 2 (one rank uses the single
// degree 1). Their product is at most the number of ranks and more than half of it.
Status check_degrees(std::span<const int> degrees, int ranks);

int product(std::span<const int> degrees);

// The stages of a rank, in order. The degrees must pass check_degrees. A layer of degree 1 has no stage.
std::vector<Stage> stages_of(std::span<const int> degrees, int ranks, int rank);

}  // namespace mq::sparse
