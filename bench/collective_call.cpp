#include "bench/collective_call.hpp"

#if MPI_VERSION >= 4
#  define MQ_LARGE(function) function##_c
#else
#  define MQ_LARGE(function) function
#endif

namespace mq::bench {

int mpi_sum(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Comm comm) {
  return MQ_LARGE(MPI_Allreduce)(send, receive, static_cast<MpiCount>(count), type, MPI_SUM, comm);
}

int mpi_start_sum(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Comm comm,
                  MPI_Request* request) {
  return MQ_LARGE(MPI_Iallreduce)(send, receive, static_cast<MpiCount>(count), type, MPI_SUM, comm, request);
}

int mpi_prepare_sum([[maybe_unused]] const void* send, [[maybe_unused]] void* receive,
                    [[maybe_unused]] MPI_Count count, [[maybe_unused]] MPI_Datatype type,
                    [[maybe_unused]] MPI_Comm comm, [[maybe_unused]] MPI_Request* request) {
#if MPI_VERSION >= 4
  return MPI_Allreduce_init_c(send, receive, count, type, MPI_SUM, comm, MPI_INFO_NULL, request);
#else
  return MPI_ERR_UNSUPPORTED_OPERATION;
#endif
}

CollectiveCall::CollectiveCall(mq::Collective collective, MPI_Count count, MPI_Datatype type, MPI_Comm comm)
    : collective_(collective), count_(count), type_(type), comm_(comm) {
  int rank = 0, ranks = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &ranks);
  is_root_ = rank == kRoot;
  const auto all = static_cast<std::uint64_t>(count);
  input_ = input_of(collective, all, ranks, rank);
  output_ = output_of(collective, all, ranks, rank);
  each_ = count / ranks;
  for (int r = 0; r < ranks && count % ranks != 0; ++r) {
    const Part part = part_of(all, ranks, r);
    counts_.push_back(static_cast<MPI_Count>(part.count));
    displacements_.push_back(static_cast<MPI_Aint>(part.begin));
    mpi_counts_.push_back(static_cast<MpiCount>(part.count));
    mpi_displacements_.push_back(static_cast<MpiDisplacement>(part.begin));
  }
}

// In a reduction only the root has MPI_IN_PLACE.
const void* CollectiveCall::brought(const void* send, const void* receive) const {
  return send == MPI_IN_PLACE && !is_root_ ? receive : send;
}

int CollectiveCall::mpi(const void* send, void* receive) const {
  const auto each = static_cast<MpiCount>(each_), mine = static_cast<MpiCount>(input_.count);
  const bool even = counts_.empty();
  if (collective_ == mq::Collective::reduce_scatter)
    return even ? MQ_LARGE(MPI_Reduce_scatter_block)(send, receive, each, type_, MPI_SUM, comm_)
                : MQ_LARGE(MPI_Reduce_scatter)(send, receive, mpi_counts_.data(), type_, MPI_SUM, comm_);
  if (collective_ == mq::Collective::allgather)
    return even ? MQ_LARGE(MPI_Allgather)(send, mine, type_, receive, each, type_, comm_)
                : MQ_LARGE(MPI_Allgatherv)(send, mine, type_, receive, mpi_counts_.data(),
                                           mpi_displacements_.data(), type_, comm_);
  const auto count = static_cast<MpiCount>(count_);
  if (collective_ == mq::Collective::bcast) return MQ_LARGE(MPI_Bcast)(receive, count, type_, kRoot, comm_);
  if (collective_ == mq::Collective::reduce)
    return MQ_LARGE(MPI_Reduce)(brought(send, receive), receive, count, type_, MPI_SUM, kRoot, comm_);
  return mpi_sum(send, receive, count_, type_, comm_);
}

int CollectiveCall::ours(const void* send, void* receive, MPI_Info info) const {
  const auto mine = static_cast<MPI_Count>(input_.count);
  const bool even = counts_.empty();
  if (collective_ == mq::Collective::reduce_scatter)
    return even ? MPIQ_Reduce_scatter_block(send, receive, each_, type_, MPI_SUM, comm_, info)
                : MPIQ_Reduce_scatter(send, receive, counts_.data(), type_, MPI_SUM, comm_, info);
  if (collective_ == mq::Collective::allgather)
    return even ? MPIQ_Allgather(send, mine, type_, receive, each_, type_, comm_, info)
                : MPIQ_Allgatherv(send, mine, type_, receive, counts_.data(), displacements_.data(), type_,
                                  comm_, info);
  if (collective_ == mq::Collective::bcast) return MPIQ_Bcast(receive, count_, type_, kRoot, comm_, info);
  if (collective_ == mq::Collective::reduce)
    return MPIQ_Reduce(brought(send, receive), receive, count_, type_, MPI_SUM, kRoot, comm_, info);
  return MPIQ_Allreduce(send, receive, count_, type_, MPI_SUM, comm_, info);
}

}  // namespace mq::bench
