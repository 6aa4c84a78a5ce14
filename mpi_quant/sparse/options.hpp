// Reads the info of a sparse call, its datatype and its op.
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

// Most values per index: fewer than a message may have bytes.
inline constexpr std::int64_t kMostStride = std::int64_t{1} << 28;

enum class SparseUse : std::uint8_t { reduce, init, all };

struct SparseOptions {
  sparse::Order order = sparse::Order::any;
  double timeout_s = 0;
  std::vector<int> degrees;  // empty: chosen automatically
  int replicas = 1;
  Key key;
  sparse::Algorithm algorithm = sparse::Algorithm::automatic;
  Status local_error;  // an error in the info
  std::uint64_t hash() const;
};

// A key that the function does not use is an error, like an unknown key.
SparseOptions read_sparse_options(MPI_Info info, SparseUse use) noexcept;

// An error if one of these arrays is in GPU memory. Null pointers are ignored.
Status check_host_memory(std::initializer_list<const void*> arrays);

// Reads the element type and the operation. An error if sparse reductions do not support them.
Status read_type(MPI_Datatype datatype, MPI_Op op, kernels::Element& element, sparse::Op& operation);

}  // namespace mq
