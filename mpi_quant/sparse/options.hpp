// What the info of a sparse call asks for, and what its datatype and op mean.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "sparse_allreduce/index_set.hpp"
#include "sparse_allreduce/sparse.hpp"
#include "sparse_allreduce/union.hpp"

namespace mq {

// Values of an index: fewer than a message may have bytes.
inline constexpr std::int64_t kMostStride = std::int64_t{1} << 28;

enum class SparseUse : std::uint8_t { reduce, init, all };

struct SparseOptions {
  sparse::Order order = sparse::Order::any;
  double timeout_s = 0;
  std::vector<int> degrees;  // empty: to be chosen
  int replicas = 1;
  Key key;
  sparse::Algorithm algorithm = sparse::Algorithm::automatic;
  Status local_error;  // what is wrong with the info
  std::uint64_t hash() const;
};

// Keys that the function has no use for are an error, as unknown ones are.
SparseOptions read_sparse_options(MPI_Info info, SparseUse use) noexcept;

// An error if one of these arrays is in the memory of a GPU; null is none.
Status check_host_memory(std::initializer_list<const void*> arrays);

// The element type and operation; an error if they are not ones of sparse reductions.
Status read_type(MPI_Datatype datatype, MPI_Op op, kernels::Element& element, sparse::Op& operation);

}  // namespace mq
