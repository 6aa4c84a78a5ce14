#include "bench/call.hpp"

#include <array>

namespace mq::bench {
namespace {

constexpr const char* kKey = "mpiq-bench";  // one vector on each communicator

}  // namespace

MPI_Datatype mpi_type(kernels::Element element) {
  MPI_Datatype half = MPI_DATATYPE_NULL;
  switch (element) {
    case kernels::Element::f32: return MPI_FLOAT;
    case kernels::Element::f64: return MPI_DOUBLE;
    case kernels::Element::f16: (void)MPIQ_Type_float16(&half); break;
    case kernels::Element::bf16: (void)MPIQ_Type_bfloat16(&half); break;
  }
  return half;
}

int mpi_sum(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Comm comm) {
#if MPI_VERSION >= 4
  return MPI_Allreduce_c(send, receive, count, type, MPI_SUM, comm);
#else
  return MPI_Allreduce(send, receive, static_cast<int>(count), type, MPI_SUM, comm);
#endif
}

Call::Call(const MethodWord& method, kernels::Element element, MPI_Count count, bool feedback, MPI_Comm comm)
    : exact_(method.method.exact() || method.method.codec->lossless),
      compresses_(!method.method.exact()),
      carries_(compresses_ && feedback && (!exact_ || kernels::compute_element(element) != element)),
      type_(mpi_type(element)),
      count_(count) {
  PMPI_Comm_dup(comm, &comm_);
  PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  if (!compresses_) return;
  PMPI_Info_create(&info_);
  PMPI_Info_set(info_, "mpiq_method", mq::to_string(method.method).c_str());
  if (feedback) PMPI_Info_set(info_, "mpiq_key", kKey);
}

Call::~Call() {
  if (info_ != MPI_INFO_NULL) PMPI_Info_free(&info_);
  PMPI_Comm_free(&comm_);
}

int Call::operator()(const void* send, void* receive) const {
  if (compresses_) return MPIQ_Allreduce(send, receive, count_, type_, MPI_SUM, comm_, info_);
  return mpi_sum(send, receive, count_, type_, comm_);
}

MPIQ_Stats Call::stats() const {
  MPIQ_Stats stats{};
  if (compresses_) (void)MPIQ_Comm_get_stats(comm_, &stats);
  return stats;
}

std::string error_text(int mpi_error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  PMPI_Error_string(mpi_error, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace mq::bench
