// What a union allreduce is asked for, and which algorithm does it: all that the layer above needs to know
// before it calls union_allreduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sparse_allreduce/exchange.hpp"
#include "sparse_allreduce/merge.hpp"
#include "sparse_allreduce/network.hpp"

namespace mq::sparse {

enum class Algorithm : std::uint8_t { automatic, allgather, split, recursive_doubling, dense, ssar, dsar };
inline constexpr std::string_view kAlgorithmNames[] = {"auto",  "allgather", "split", "recursive_doubling",
                                                       "dense", "ssar",      "dsar"};

struct UnionOutput {
  bool dense = false;  // the vector itself, size * stride values; else the list. Equal on all ranks
  std::uint64_t* indices = nullptr;  // of the list: room for max
  std::byte* values = nullptr;       // aligned for the element type
  std::uint64_t max = 0;  // of the list; equal on all ranks. A longer result is bad_argument on all
};

struct UnionJob {
  Entry entry;             // element type, operation, stride
  std::uint64_t size = 0;  // indices are below; at most 2^63
  List list;               // this rank's
  Algorithm algorithm = Algorithm::automatic;
  std::uint64_t most_entries = 0;  // greatest number of entries of any rank
  Network network = {};
  std::uint64_t call = 0;  // as in Header
  int first_tag = 0;
  double timeout_s = 0;  // a rank that sends nothing for so long is an error; 0: wait for ever
  UnionOutput output;
};

struct UnionResult {
  std::uint64_t count = 0;                     // entries of the list; size, where the output is dense
  Algorithm algorithm = Algorithm::automatic;  // that did it
};

// What the choice of an algorithm depends on: equal on all ranks.
struct UnionShape {
  std::uint64_t size = 0;
  Entry entry;
  std::uint64_t most_entries = 0;
  int ranks = 1;
  bool dense_output = false;
};

// Seconds that an algorithm is expected to take, lists being random: messages by network.message_s, lists by
// what an entry takes to encode, decode and merge, union sizes as n (1 - (1 - k/n)^m) of m ranks.
double expected_s(Algorithm algorithm, const UnionShape& shape, const Network& network);

// The fastest of allgather, split, recursive_doubling and dense, by expected_s.
Algorithm choose(const UnionShape& shape, const Network& network);

}  // namespace mq::sparse
