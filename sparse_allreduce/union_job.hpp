// The request and the result of a union allreduce, and the choice of its algorithm. The layer above needs to
// know only this before it calls union_allreduce.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sparse_allreduce/exchange.hpp"
#include "sparse_allreduce/merge.hpp"
#include "sparse_allreduce/network.hpp"

namespace mq::sparse {

enum class Algorithm : std::uint8_t { automatic, allgather, split, recursive_doubling, dense };
inline constexpr std::string_view kAlgorithmNames[] = {"auto", "allgather", "split", "recursive_doubling",
                                                       "dense"};
// What `automatic` chooses from, if it can do the operation: MPI's minimum and maximum may lose a NaN.
inline constexpr std::array kChoices{Algorithm::allgather, Algorithm::split, Algorithm::recursive_doubling,
                                     Algorithm::dense};
constexpr bool can_reduce(Algorithm algorithm, Op op) {
  return algorithm != Algorithm::dense || op == Op::sum;
}

struct UnionOutput {
  bool dense = false;  // the whole vector, size * stride values; else a list. Equal on all ranks
  std::uint64_t* indices = nullptr;  // of the list; room for max
  std::byte* values = nullptr;       // aligned for the element type
  std::uint64_t max = 0;  // room in the list; equal on all ranks. A longer result is bad_argument on all
};

struct UnionJob {
  Entry entry;             // element type, operation, stride
  std::uint64_t size = 0;  // all indices are below; at most 2^63
  List list;               // this rank's
  Algorithm algorithm = Algorithm::automatic;
  std::uint64_t most_entries = 0;  // largest number of entries of any rank
  Network network = {};
  std::uint64_t call = 0;  // as in Header
  int first_tag = 0;
  double timeout_s = 0;  // longest silence of a rank before it is an error; 0: no limit
  UnionOutput output;
};

struct UnionResult {
  std::uint64_t count = 0;                     // entries of the list; `size` if the output is dense
  Algorithm algorithm = Algorithm::automatic;  // that was used
};

// The input of the choice of an algorithm; equal on all ranks.
struct UnionShape {
  std::uint64_t size = 0;
  Entry entry;
  std::uint64_t most_entries = 0;
  int ranks = 1;
  bool dense_output = false;
};

// Seconds that an algorithm is expected to take for random lists. Messages cost network.message_s. Lists cost
// what their entries take to encode, decode and merge. The union of m ranks' lists has n (1 - (1 - k/n)^m)
// entries.
double expected_s(Algorithm algorithm, const UnionShape& shape, const Network& network);

// The fastest of kChoices, according to expected_s.
Algorithm choose(const UnionShape& shape, const Network& network);

}  // namespace mq::sparse
