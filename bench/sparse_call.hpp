// One way to reduce sparse vectors, ready to be called as in a user's program. mpiq-bench and mpiq-pagerank
// both use it. Each has a communicator of its own, so that plans, index lists and statistics belong to it and
// are freed with it.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>

#include "bench/sparse_method.hpp"
#include "kernels/codec.hpp"
#include "mpi_quant.h"

namespace mq::bench {

struct SparseShape {
  std::uint64_t size = 0, stride = 1;  // of the vector: the number of indices, and of values at each
  kernels::Element element = kernels::Element::f32;
  std::size_t width() const { return stride * kernels::element_bytes(element); }  // bytes at each index
};

// The two lists of a rank, both strictly ascending, and memory for its result. There are three forms of
// result; only the one that the method uses has to be set.
struct SparseBuffers {
  std::span<const std::int64_t> out_indices, in_indices;
  const void* out_values = nullptr;
  void* in_values = nullptr;              // for kylix and fused, at in_indices
  void* vector = nullptr;                 // for densify and union/dense: the whole vector
  std::span<std::int64_t> union_indices;  // for union; equally long on every rank
  void* union_values = nullptr;
};

enum class ResultForm : std::uint8_t { wanted, vector, list };
ResultForm form_of(const SparseMethod&);

class SparseCall {
 public:
  // Collective over comm, as is the destructor. fresh: kylix is configured in every call, as a program must
  // if its lists change each time. Otherwise kylix is configured in the first call only.
  SparseCall(SparseMethod method, const SparseShape& shape, bool fresh, MPI_Comm comm);
  ~SparseCall();
  SparseCall(const SparseCall&) = delete;
  SparseCall& operator=(const SparseCall&) = delete;

  // What kylix does before its first start; the other methods do nothing. Collective, as is a call. Returns
  // MPI error codes.
  int configure(const SparseBuffers& buffers);
  int operator()(const SparseBuffers& buffers);
  std::size_t union_count() const { return static_cast<std::size_t>(union_count_); }  // of the last call
  const SparseMethod& method() const { return method_; }
  MPIQ_Stats stats() const;  // all zero for densify

 private:
  int densify(const SparseBuffers& buffers) const;
  int make_union(const SparseBuffers& buffers);

  SparseMethod method_;
  SparseShape shape_;
  bool fresh_;
  MPI_Datatype type_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Info info_ = MPI_INFO_NULL;
  MPIQ_Request request_ = MPIQ_REQUEST_NULL;
  MPI_Count union_count_ = 0;
};

// Sets vector[indices[i]] = values[i], where a value has `width` bytes, and everything else to 0.
void scatter(std::span<const std::int64_t> indices, const void* values, const SparseShape& shape,
             void* vector);

}  // namespace mq::bench
