// The routes of a reduction: the result of the configuration phase, when the index lists have gone down the
// butterfly. For every layer, the routes say which part of this rank's values goes to which peer, and where
// received values belong. With routes, a reduction sends values only. They are constant and contain no
// messages, so that reductions and predictions can both read them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sparse_allreduce/index_union.hpp"
#include "sparse_allreduce/list_stats.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

// One contiguous part of the lists before a layer. The out values [out_begin, out_begin + out_count) go down
// to `peer`. The in values [in_begin, in_begin + in_count) come up from it.
struct Part {
  int peer = 0;
  std::size_t out_begin = 0, out_count = 0, in_begin = 0, in_count = 0;
};

// Where the values of a peer belong. The values that the peer sends down have positions `out` in the out list
// after the layer. On the way up it receives the values at positions `in` of the in list after the layer.
struct Source {
  int peer = 0;
  Map out, in;
};

struct Layer {
  int number = 0;               // of the stage; equal on all ranks
  std::size_t me = 0;           // parts[me] and sources[me] belong to this rank
  std::vector<Part> parts;      // in ascending order of indices
  std::vector<Source> sources;  // in the order in which values are combined
};

// Peers are numbered within this rank's replica: a peer's number is its rank modulo (ranks / replicas).
struct KylixRoutes {
  std::vector<int> degrees;
  int ranks = 1, replicas = 1;  // ranks: all replicas together
  std::uint64_t call = 0;
  int first_tag = 0;

  std::vector<Layer> layers;
  std::size_t bottom_out = 0, bottom_in = 0;  // lengths of the lists below the last layer
  Map bottom;                                 // bottom[k]: position of in[k] in the out list, or kAbsent

  // The caller's lists: sizes of their sets, lengths as given, and positions as in IndexSet.
  std::size_t out_set = 0, in_set = 0, out_given = 0, in_given = 0;
  Map out_position, in_position;
  Indices out_list, in_list;  // copies, if lists_kept
  bool lists_kept = false;

  Workspace memory;  // holds all spans above

  std::size_t list_bytes() const { return memory.bytes(); }
};

// Returns whether the routes were made from these lists, in the same order. False if the lists were not kept.
bool same_lists(const KylixRoutes& kylix, std::span<const std::int64_t> out,
                std::span<const std::int64_t> in);

// What a reduction transfers in one layer on this rank: values without headers, and messages.
struct LayerTraffic {
  int number = 0;
  std::uint64_t down_entries = 0, up_entries = 0;    // sent
  std::uint64_t down_messages = 0, up_messages = 0;  // sent; a part without entries needs no message
};
std::vector<LayerTraffic> traffic_of(const KylixRoutes& kylix);

}  // namespace mq::sparse
