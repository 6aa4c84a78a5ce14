// Who exchanges what with whom in a nested butterfly: layers of degrees d_0, d_1 ... whose product M is at
// most the number of ranks P. Separate because it knows neither lists nor messages.
//
// The index space is cut into M ranges of a rank each. In layer l, ranks that agree in all digits but the
// l-th (mixed radix, the first digit is that of neighbouring ranks, which often share a node) form a group,
// cut the range that they have in common into d_l parts, and each keeps the part of its digit: after layer l
// a rank has 1 / (d_0 ... d_l) of the indices, after the last 1 / M. With M < P, a layer before all others
// folds rank M + i into rank i: it gives everything to it and keeps nothing. So a rank has sum(d_l - 1)
// peers, all different, and one more where it is folded. Zhao and Canny: Kylix, ICPP 2014, section III;
// contiguous ranges in place of residues, so that parts of a sorted list are contiguous.
#pragma once

#include <span>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::sparse {

// What one rank does in one layer. Ranges are numbered as the index space goes: member j's part consists of
// ranges [cuts[j], cuts[j + 1]).
struct Stage {
  int number = 0;            // 0: the fold; 1, 2 ...: the layers. Equal on all ranks.
  std::vector<int> members;  // ranks, in the order in which their values are combined
  std::vector<int> cuts;     // members.size() + 1
  std::size_t me = 0;        // members[me] is this rank
};

// Whether degrees can be used by this many ranks: at least 2 each (or the one degree 1, on one rank), their
// product at most the number of ranks and more than half of it.
Status check_degrees(std::span<const int> degrees, int ranks);

int product(std::span<const int> degrees);

// The stages of a rank, in order; of degrees that check_degrees likes. Layers of degree 1 are none.
std::vector<Stage> stages_of(std::span<const int> degrees, int ranks, int rank);

}  // namespace mq::sparse
