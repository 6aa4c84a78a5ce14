// Reads lists as the user writes them on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sparse_method.hpp"
#include "bench/split_list.hpp"
#include "kernels/codec.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq::bench {

// "64K,1M"; in bytes, none of them zero
Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text);
// "2,4,8"; the result is ascending and has each number once
Result<std::vector<int>> parse_ranks(std::string_view text);
Result<std::vector<int>> parse_percents(std::string_view text);  // "50,100"; ascending, each once
Result<std::vector<kernels::Element>> parse_elements(std::string_view text);

// How a reduction that is not this library's handles vectors in the memory of a GPU.
enum class Dense : std::uint8_t {
  // "mpi": copies them to pinned host memory and back around MPI's reduction; also for vectors on the host
  host,
  direct,  // "mpi-direct": gives MPI the addresses on the GPU, if MPI reports that it takes them
  nccl,    // "nccl": uses NCCL in place of MPI, where it is installed
};

// A word of --methods. It is what mq::parse_method takes, where {side} may stand for the value of a
// parameter: the side of the matrix that is reduced. Or it is mpi/ALGORITHM, see mpi_algorithm.hpp. #2, #3
// and so on may follow any of them. They name the same method again, measured separately, which shows how
// large differences without meaning are.
struct MethodWord {
  std::string text;                         // canonical: names one series of results over all sizes
  Method method;                            // for a word with {side}, valid only after at_side
  std::string algorithm;                    // of the MPI library's own reduction; "": the library chooses
  std::optional<SparseMethod> sparse = {};  // for lists; replaces all members above
  Dense dense = Dense::host;                // for methods that are not this library's
  // Of --overlap: the computation between start and end of a call, in percent of the baseline's time without
  // any; -1: a call that blocks.
  int compute_percent = -1;
  std::string plain_text() const;  // without #N
};
// Whether it sends vectors as they are: MPI's own reductions, NCCL, and the codec raw.
bool is_dense(const MethodWord& word);

// What the methods of a list are for. Methods for lists are allowed only in a sweep over sparse vectors, and
// schemes such as lowrank only where vectors are matrices.
enum class MethodsFor : std::uint8_t { vectors, lists, matrices };
// 'mpi/*' stands for every algorithm except auto. The same method twice is an error.
Result<std::vector<MethodWord>> parse_methods(std::string_view text, MethodsFor use = MethodsFor::vectors);

Result<std::vector<double>> parse_densities(std::string_view text);  // "0.01,0.1", each in (0, 1]

// The method for a matrix of this side; 0: for a vector that is not a matrix. Its text does not change.
Result<MethodWord> at_side(const MethodWord& word, std::uint64_t side);

// All sizes from min to max inclusive, growing by `factor` (at least 2).
std::vector<std::uint64_t> size_range(std::uint64_t min_bytes, std::uint64_t max_bytes, std::uint64_t factor);

std::string human_size(std::uint64_t bytes);  // "64K" if that is exact, otherwise "63.5K"

}  // namespace mq::bench
