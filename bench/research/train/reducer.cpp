#include "bench/research/train/reducer.hpp"

#include <fmt/format.h>

namespace mq::bench {

std::vector<Span> make_buckets(const std::vector<Span>& tensors, std::size_t bytes) {
  std::vector<Span> buckets;
  for (const Span& tensor : tensors) {
    if (!buckets.empty() && (buckets.back().count + tensor.count) * sizeof(float) <= bytes) {
      buckets.back().count += tensor.count;
      buckets.back().name += "+" + tensor.name;
      buckets.back().row = 0;
    } else {
      buckets.push_back(tensor);
    }
  }
  return buckets;
}

Reducer::Reducer(const std::string& method, bool feedback, std::vector<Span> buckets, MPI_Comm comm)
    : plain_(method == "mpi"), buckets_(std::move(buckets)) {
  PMPI_Comm_dup(comm, &comm_);
  PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  if (plain_) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "mpiq_method", method.c_str());
    if (feedback) PMPI_Info_set(info, "mpiq_key", std::to_string(b).c_str());
    // The library names the sizes of a matrix that is stored column by column, which its transpose is.
    if (const Span& piece = buckets_[b]; piece.row > 0)
      PMPI_Info_set(info, "mpiq_matrix", fmt::format("{}x{}", piece.row, piece.count / piece.row).c_str());
    info_.push_back(info);
  }
}

Reducer::~Reducer() {
  for (MPI_Info& info : info_) PMPI_Info_free(&info);
  PMPI_Comm_free(&comm_);
}

void Reducer::use(const std::string& method) {
  for (MPI_Info info : info_) PMPI_Info_set(info, "mpiq_method", method.c_str());
}

int Reducer::reduce(float* gradients) {
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    float* const piece = gradients + buckets_[b].begin;
    const auto n = static_cast<int>(buckets_[b].count);
    const int error = plain_ ? MPI_Allreduce(MPI_IN_PLACE, piece, n, MPI_FLOAT, MPI_SUM, comm_)
                             : MPIQ_Allreduce(MPI_IN_PLACE, piece, n, MPI_FLOAT, MPI_SUM, comm_, info_[b]);
    if (error != MPI_SUCCESS) return error;
  }
  return MPI_SUCCESS;
}

int Reducer::start(float* gradients) {
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    float* const piece = gradients + buckets_[b].begin;
    const auto n = static_cast<int>(buckets_[b].count);
    int error = MPI_SUCCESS;
    if (plain_) {
      plain_requests_.push_back(MPI_REQUEST_NULL);
      error = MPI_Iallreduce(MPI_IN_PLACE, piece, n, MPI_FLOAT, MPI_SUM, comm_, &plain_requests_.back());
    } else {
      requests_.push_back(MPIQ_REQUEST_NULL);
      error = MPIQ_Iallreduce(MPI_IN_PLACE, piece, n, MPI_FLOAT, MPI_SUM, comm_, info_[b], &requests_.back());
    }
    if (error != MPI_SUCCESS) return error;
  }
  return MPI_SUCCESS;
}

int Reducer::finish() {
  int first = MPI_SUCCESS;
  const auto keep = [&](int error) {
    if (first == MPI_SUCCESS) first = error;
  };
  for (MPI_Request& request : plain_requests_) keep(MPI_Wait(&request, MPI_STATUS_IGNORE));
  for (MPIQ_Request& request : requests_) keep(MPIQ_Wait(&request));
  plain_requests_.clear();
  requests_.clear();
  return first;
}

MPIQ_Stats Reducer::stats() const {
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  if (!plain_) (void)MPIQ_Comm_get_stats(comm_, &stats);
  return stats;
}

}  // namespace mq::bench
