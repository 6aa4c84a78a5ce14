#include "bench/sparse_call.hpp"

#include <cstring>
#include <utility>

#include "bench/call.hpp"

namespace mq::bench {

ResultForm form_of(const SparseMethod& method) {
  if (method.butterfly()) return ResultForm::wanted;
  return method.kind == SparseMethod::Kind::make_union && !method.dense_result ? ResultForm::list
                                                                               : ResultForm::vector;
}

void scatter(std::span<const std::int64_t> indices, const void* values, const SparseShape& shape,
             void* vector) {
  const std::size_t width = shape.width();
  std::memset(vector, 0, shape.size * width);
  const auto copy = [&]<std::size_t kWidth>() {  // the compiler knows the width; 0: any width
    const std::size_t w = kWidth == 0 ? width : kWidth;
    const auto* from = static_cast<const std::byte*>(values);
    for (const std::int64_t i : indices) {
      std::memcpy(static_cast<std::byte*>(vector) + static_cast<std::size_t>(i) * w, from, w);
      from += w;
    }
  };
  if (width == 4)
    copy.operator()<4>();
  else if (width == 8)
    copy.operator()<8>();
  else
    copy.operator()<0>();
}

SparseCall::SparseCall(SparseMethod method, const SparseShape& shape, bool fresh, MPI_Comm comm)
    : method_(std::move(method)), shape_(shape), fresh_(fresh), type_(mpi_type(shape.element)) {
  PMPI_Comm_dup(comm, &comm_);
  PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  if (method_.kind == SparseMethod::Kind::densify) return;
  PMPI_Info_create(&info_);
  PMPI_Info_set(info_, "mpiq_indices", "sorted");
  if (!method_.algorithm.empty()) PMPI_Info_set(info_, "mpiq_algorithm", method_.algorithm.c_str());
  if (!method_.degrees.empty()) PMPI_Info_set(info_, "mpiq_degrees", method_.degrees.c_str());
}

SparseCall::~SparseCall() {
  if (request_ != MPIQ_REQUEST_NULL) (void)MPIQ_Request_free(&request_);
  if (info_ != MPI_INFO_NULL) PMPI_Info_free(&info_);
  PMPI_Comm_free(&comm_);
}

int SparseCall::configure(const SparseBuffers& b) {
  if (method_.kind != SparseMethod::Kind::kylix || request_ != MPIQ_REQUEST_NULL) return MPI_SUCCESS;
  return MPIQ_Sparse_allreduce_init(static_cast<MPI_Count>(b.out_indices.size()), b.out_indices.data(),
                                    b.out_values, static_cast<MPI_Count>(b.in_indices.size()),
                                    b.in_indices.data(), b.in_values, static_cast<MPI_Count>(shape_.stride),
                                    type_, MPI_SUM, comm_, info_, &request_);
}

int SparseCall::densify(const SparseBuffers& b) const {
  scatter(b.out_indices, b.out_values, shape_, b.vector);
  return mpi_sum(MPI_IN_PLACE, b.vector, static_cast<MPI_Count>(shape_.size * shape_.stride), type_, comm_);
}

int SparseCall::make_union(const SparseBuffers& b) {
  const bool list = !method_.dense_result;
  return MPIQ_Sparse_allreduce_union(static_cast<MPI_Count>(b.out_indices.size()), b.out_indices.data(),
                                     b.out_values, static_cast<MPI_Count>(shape_.size),
                                     static_cast<MPI_Count>(list ? b.union_indices.size() : shape_.size),
                                     list ? b.union_indices.data() : nullptr,
                                     list ? b.union_values : b.vector, &union_count_,
                                     static_cast<MPI_Count>(shape_.stride), type_, MPI_SUM, comm_, info_);
}

int SparseCall::operator()(const SparseBuffers& b) {
  switch (method_.kind) {
    case SparseMethod::Kind::densify: return densify(b);
    case SparseMethod::Kind::make_union: return make_union(b);
    case SparseMethod::Kind::fused:
      return MPIQ_Sparse_allreduce(static_cast<MPI_Count>(b.out_indices.size()), b.out_indices.data(),
                                   b.out_values, static_cast<MPI_Count>(b.in_indices.size()),
                                   b.in_indices.data(), b.in_values, static_cast<MPI_Count>(shape_.stride),
                                   type_, MPI_SUM, comm_, info_);
    case SparseMethod::Kind::kylix: break;
  }
  int error = configure(b);
  if (error == MPI_SUCCESS) error = MPIQ_Start(&request_);
  if (error == MPI_SUCCESS) error = MPIQ_Wait(&request_);
  if (!fresh_ || request_ == MPIQ_REQUEST_NULL) return error;
  const int freed = MPIQ_Request_free(&request_);
  return error != MPI_SUCCESS ? error : freed;
}

MPIQ_Stats SparseCall::stats() const {
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  if (method_.kind != SparseMethod::Kind::densify) (void)MPIQ_Comm_get_stats(comm_, &stats);
  return stats;
}

}  // namespace mq::bench
