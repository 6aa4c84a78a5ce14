// One way to reduce sparse vectors, ready to be called as a user's program would call it. Shared by the
// measurements of mpiq-bench and by mpiq-pagerank. Each has a communicator of its own, so that plans, index
// lists and statistics belong to it and go away with it.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>

#include "bench/sparse_method.hpp"
#include "kernels/codec.hpp"
#include "mpi_quant.h"

namespace mq::bench {

struct SparseShape {
  std::uint64_t size = 0, stride = 1;  // of the vector: indices, and values at each
  kernels::Element element = kernels::Element::f32;
  std::size_t width() const { return stride * kernels::element_bytes(element); }  // bytes at each index
};

// One rank's lists, both strictly ascending, and room for its result; of the three forms only the one that
// the method has needs to be there.
struct SparseBuffers {
  std::span<const std::int64_t> out_indices, in_indices;
  const void* out_values = nullptr;
  void* in_values = nullptr;              // of kylix and fused, at in_indices
  void* vector = nullptr;                 // of densify and union/dense: all of it
  std::span<std::int64_t> union_indices;  // of union; as long on every rank
  void* union_values = nullptr;
};

enum class ResultForm : std::uint8_t { wanted, vector, list };
ResultForm form_of(const SparseMethod&);

class SparseCall {
 public:
  // Collective over comm, as is the destructor. fresh: kylix is configured in every call, as where the lists
  // are others each time; else in the first one.
  SparseCall(SparseMethod method, const SparseShape& shape, bool fresh, MPI_Comm comm);
  ~SparseCall();
  SparseCall(const SparseCall&) = delete;
  SparseCall& operator=(const SparseCall&) = delete;

  // What kylix does before its first start; nothing for the others. Collective, as is a call. MPI error
  // codes.
  int configure(const SparseBuffers& buffers);
  int operator()(const SparseBuffers& buffers);
  std::size_t union_count() const { return static_cast<std::size_t>(union_count_); }  // of the last call
  const SparseMethod& method() const { return method_; }
  MPIQ_Stats stats() const;  // all zero for densify

 private:
  int densify(const SparseBuffers& buffers) const;
  int unite(const SparseBuffers& buffers);

  SparseMethod method_;
  SparseShape shape_;
  bool fresh_;
  MPI_Datatype type_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Info info_ = MPI_INFO_NULL;
  MPIQ_Request request_ = MPIQ_REQUEST_NULL;
  MPI_Count union_count_ = 0;
};

// vector[indices[i]] = values[i], of width bytes; the rest is 0.
void scatter(std::span<const std::int64_t> indices, const void* values, const SparseShape& shape,
             void* vector);

}  // namespace mq::bench
