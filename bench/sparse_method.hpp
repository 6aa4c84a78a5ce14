// Ways to reduce sparse vectors, as they are written on the command line:
//
// - densify: scatters the list into zeros and calls MPI_Allreduce, as a program does without this library;
// - union, union(algorithm=NAME): MPIQ_Sparse_allreduce_union, the result is a list; union/dense: the vector;
// - kylix, kylix(degrees=4x2) or kylix/4x2: MPIQ_Sparse_allreduce_init, and a start for every call;
// - fused, fused(degrees=4x2) or fused/4x2: MPIQ_Sparse_allreduce.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

struct SparseMethod {
  enum class Kind : std::uint8_t { densify, unite, kylix, fused } kind = Kind::densify;
  std::string algorithm;      // of a union; "": the library's choice
  bool dense_result = false;  // of a union
  std::string degrees;        // of kylix and fused; "": the library's choice
  bool butterfly() const { return kind == Kind::kylix || kind == Kind::fused; }
};

bool names_sparse_method(std::string_view word);  // else it is one for dense vectors
Result<SparseMethod> parse_sparse_method(std::string_view word);
std::string to_string(const SparseMethod&);  // canonical word
std::string name(SparseMethod::Kind);

// "8x4x2" -> {8, 4, 2}
Result<std::vector<int>> parse_degrees(std::string_view text);
// Whether they can be used by so many ranks, see sparse::check_degrees.
Status check_degrees(std::string_view degrees, int ranks);

std::string sparse_methods_text();  // for --list

}  // namespace mq::bench
