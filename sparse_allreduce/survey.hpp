// What all ranks know of each other's lists before a reduction: sizes, regularly spaced indices and the
// smallest hashes, few enough to be gathered by all. From these, where to cut the index space so that ranks
// have equal work, and how much the lists have in common. Everything is computed from the same blocks by
// additions, multiplications and divisions only: equal bits on all ranks, whatever processors they run on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sparse_allreduce/unite.hpp"

namespace mq::sparse {

inline constexpr std::uint64_t kIndexLimit = std::uint64_t{1} << 63;

// Of one list.
struct ListSurvey {
  std::uint64_t count = 0;
  Indices samples;  // ascending; each stands for count / samples.size() indices
  Indices hashes;   // the smallest, ascending; all of them if there are count
};

// A block: words of 64 bits, the same number for every rank of a call.
class SurveyShape {
 public:
  // ranks: how many blocks each rank will receive; their number bounds what a block may hold. Hashes serve
  // union_size() only.
  SurveyShape(int ranks, bool with_hashes);
  std::size_t words() const { return 2 * (1 + samples_ + hashes_); }
  void write(Indices out, Indices in, std::span<std::uint64_t> block) const;
  // False if no such lists exist.
  [[nodiscard]] bool read(std::span<const std::uint64_t> block, ListSurvey& out, ListSurvey& in) const;

 private:
  void write_list(Indices list, std::uint64_t* to) const;
  bool read_list(const std::uint64_t* from, ListSurvey& list) const;
  std::size_t samples_, hashes_;
};

struct Survey {
  std::vector<ListSurvey> out, in;  // of every rank; spans point into the gathered blocks
};

// product(degrees) + 1 bounds of as many ranges as the butterfly has: bounds[0] = 0, ascending, the last is
// kIndexLimit. Ranges have equal shares of the work of all layers, down and up, by the local densities of the
// lists: after layer l, K = d_0 ... d_l lists of density m have become one of density 1 - (1 - m)^K.
std::vector<std::uint64_t> balanced_bounds(const Survey& survey, std::span<const int> degrees);

// How many different indices the lists have together: exact if they are short, else estimated from the hashes
// with a relative standard deviation of at most 1 / sqrt(hashes).
double union_size(std::span<const ListSurvey> lists);

double mean_count(std::span<const ListSurvey> lists);

// Mixes all bits: different indices of any pattern have hashes like random numbers.
inline std::uint64_t hash_of(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;  // the finalizer of SplitMix64
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace mq::sparse
