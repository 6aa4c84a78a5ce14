// Ways to reduce sparse vectors, as the user writes them on the command line:
//
// - densify scatters the list into zeros and calls MPI_Allreduce, as a program does without this library.
// - union, union(algorithm=NAME) calls MPIQ_Sparse_allreduce_union. The result is a list; union/dense gives
//   the vector.
// - kylix, kylix(degrees=4x2) or kylix/4x2 calls MPIQ_Sparse_allreduce_init once, and a start for every call.
// - fused, fused(degrees=4x2) or fused/4x2 calls MPIQ_Sparse_allreduce.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

struct SparseMethod {
  enum class Kind : std::uint8_t { densify, make_union, kylix, fused } kind = Kind::densify;
  std::string algorithm;      // of a union; "": the library chooses
  bool dense_result = false;  // of a union
  std::string degrees;        // of kylix and fused; "": the library chooses
  bool butterfly() const { return kind == Kind::kylix || kind == Kind::fused; }
};

bool names_sparse_method(std::string_view word);  // otherwise it is a method for dense vectors
Result<SparseMethod> parse_sparse_method(std::string_view word);
std::string to_string(const SparseMethod&);  // the canonical word
std::string name(SparseMethod::Kind);

// "8x4x2" -> {8, 4, 2}
Result<std::vector<int>> parse_degrees(std::string_view text);
// Whether this number of ranks can use these degrees, see sparse::check_degrees.
Status check_degrees(std::string_view degrees, int ranks);

std::string sparse_methods_text();  // for --list

}  // namespace mq::bench
