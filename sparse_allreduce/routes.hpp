// What is known once the index lists have gone down the butterfly: for every layer, which part of this rank's
// values goes to whom, and where the values that come belong. With it, reductions send values only.
// Immutable, and free of messages, so that reductions and predictions read it alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sparse_allreduce/survey.hpp"
#include "sparse_allreduce/unite.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

// Of the lists before a layer, contiguous: out values [out_begin, + out_count) go down to peer, and in values
// [in_begin, + in_count) come up from it.
struct Part {
  int peer = 0;
  std::size_t out_begin = 0, out_count = 0, in_begin = 0, in_count = 0;
};

// What a peer sends down has these positions in the out list after the layer, and is sent up what stands at
// these positions of the in list after the layer.
struct Source {
  int peer = 0;
  Map out, in;
};

struct Layer {
  int number = 0;               // of the stage, equal on all ranks
  std::size_t me = 0;           // parts[me] and sources[me] are this rank's own
  std::vector<Part> parts;      // in ascending order of indices
  std::vector<Source> sources;  // in the order in which values are combined
};

// Peers are numbered within this rank's replica: rank modulo (ranks / replicas).
struct Kylix {
  std::vector<int> degrees;
  int ranks = 1, replicas = 1;  // ranks of all replicas together
  std::uint64_t call = 0;
  int first_tag = 0;

  std::vector<Layer> layers;
  std::size_t bottom_out = 0, bottom_in = 0;  // lengths of the lists below the last layer
  Map bottom;                                 // where each of the in list stands in the out list, or kAbsent

  // The caller's lists: as sets, and places as in IndexSet.
  std::size_t out_set = 0, in_set = 0, out_given = 0, in_given = 0;
  Map out_place, in_place;
  Indices out_list, in_list;  // copies, if they are to be kept
  bool lists_kept = false;

  Workspace memory;  // of all spans

  std::size_t list_bytes() const { return memory.bytes(); }
};

// Whether these are the lists that the routes were made of, in the same order. Only if they were kept.
bool same_lists(const Kylix& kylix, std::span<const std::int64_t> out, std::span<const std::int64_t> in);

// Of values that a reduction sends and receives, without headers, and of messages: on this rank.
struct LayerTraffic {
  int number = 0;
  std::uint64_t down_entries = 0, up_entries = 0;    // sent
  std::uint64_t down_messages = 0, up_messages = 0;  // sent; nothing is sent where there is no entry
};
std::vector<LayerTraffic> traffic_of(const Kylix& kylix);

}  // namespace mq::sparse
