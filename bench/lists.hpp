// Lists as they are written on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sparse_method.hpp"
#include "kernels/codec.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq::bench {

// "mpi, onebit(block=512,x=1)/direct" -> two words: a comma inside parentheses belongs to the word. Blanks
// around words are dropped; an empty word or an open parenthesis is an error.
Result<std::vector<std::string>> split_list(std::string_view text);

Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text);  // "64K,1M", bytes, none zero
Result<std::vector<int>> parse_ranks(std::string_view text);  // "2,4,8", ascending in the result, each once
Result<std::vector<kernels::Element>> parse_elements(std::string_view text);

// How a reduction that is not this library's finds vectors that are in the memory of a GPU.
enum class Dense : std::uint8_t {
  host,    // "mpi": copied to pinned host memory and back around MPI's reduction, or on the host anyway
  direct,  // "mpi-direct": MPI is given the addresses on the GPU, if it says that it can
  nccl,    // "nccl": NCCL in place of MPI, where it is installed
};

// A word of --methods: what mq::parse_method takes, and in place of a parameter's value {side}, the side of
// the matrix that is reduced; or mpi/ALGORITHM, see mpi_algorithm.hpp. Behind any of them #2, #3 ...: the
// same method once more, measured as one of its own, which shows what differences mean nothing.
struct MethodWord {
  std::string text;                         // canonical: names one series of results over all sizes
  Method method;                            // of a word with {side} only after at_side
  std::string algorithm;                    // of the MPI library's own reduction; "": the library's choice
  std::optional<SparseMethod> sparse = {};  // for lists, in place of all that
  Dense dense = Dense::host;                // of what is not this library's
  std::string plain_text() const;           // without #N
};
// 'mpi/*' stands for every algorithm but auto. The same method twice is an error. Methods for lists are words
// of a sweep over sparse vectors only.
Result<std::vector<MethodWord>> parse_methods(std::string_view text, bool sparse = false);

Result<std::vector<double>> parse_densities(std::string_view text);  // "0.01,0.1", each in (0, 1]

// The word for a matrix of this side; 0: for a vector that is none. Its text stays.
Result<MethodWord> at_side(const MethodWord& word, std::uint64_t side);

// From min to max inclusive by powers of factor (at least 2).
std::vector<std::uint64_t> size_range(std::uint64_t min_bytes, std::uint64_t max_bytes, std::uint64_t factor);

std::string human_size(std::uint64_t bytes);  // "64K" where exact, else "63.5K"

}  // namespace mq::bench
