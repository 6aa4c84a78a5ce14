// Statistics of the index lists: what all ranks learn about each other's lists before a reduction. They are
// the sizes of the lists, regularly spaced indices, and the smallest hashes. All ranks gather them in one
// small block per rank.
//
// From these statistics every rank computes where to cut the index space so that the ranks have equal work,
// and how many indices the lists have in common. The computation uses additions, multiplications and
// divisions only, so all ranks get equal bits, whatever their processors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sparse_allreduce/index_union.hpp"

namespace mq::sparse {

inline constexpr std::uint64_t kIndexLimit = std::uint64_t{1} << 63;

// The statistics of one list.
struct ListStats {
  std::uint64_t count = 0;
  Indices samples;  // ascending; each represents count / samples.size() indices
  Indices hashes;   // the smallest, ascending; all hashes if the list is short
};

// The layout of a block of statistics: 64-bit words, the same number for every rank of a call.
class ListStatsLayout {
 public:
  // `ranks` is the number of blocks that each rank receives; it limits the size of a block. Only union_size()
  // needs the hashes.
  ListStatsLayout(int ranks, bool with_hashes);
  std::size_t words() const { return 2 * (1 + samples_ + hashes_); }
  void write(Indices out, Indices in, std::span<std::uint64_t> block) const;
  // False if no lists can have these statistics.
  [[nodiscard]] bool read(std::span<const std::uint64_t> block, ListStats& out, ListStats& in) const;

 private:
  void write_list(Indices list, std::uint64_t* to) const;
  bool read_list(const std::uint64_t* from, ListStats& list) const;
  std::size_t samples_, hashes_;
};

struct ListStatsByRank {
  std::vector<ListStats> out, in;  // by rank; spans point into the gathered blocks
};

// Returns the product(degrees) + 1 bounds of the butterfly's ranges: ascending, the first is 0, the last is
// kIndexLimit. The ranges have equal shares of the work of all layers, down and up. The work is computed from
// the local densities of the lists: after layer l, K = d_0 ... d_l lists of density m have become one list of
// density 1 - (1 - m)^K.
std::vector<std::uint64_t> balanced_bounds(const ListStatsByRank& stats, std::span<const int> degrees);

// Number of different indices in all lists together. It is exact if the lists are short. Otherwise it is
// estimated from the hashes, with a relative standard deviation of at most 1 / sqrt(hashes).
double union_size(std::span<const ListStats> lists);

double mean_count(std::span<const ListStats> lists);

// Mixes all bits, so that different indices have hashes like random numbers, whatever pattern the indices
// follow.
inline std::uint64_t hash_of(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;  // the finalizer of SplitMix64
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace mq::sparse
