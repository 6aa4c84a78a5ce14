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

CollectiveCall::CollectiveCall(mq::Collective collective, MPI_Count count, MPI_Datatype type, MPI_Comm comm)
    : collective_(collective), count_(count), type_(type), comm_(comm) {
  int rank = 0, ranks = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &ranks);
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

int CollectiveCall::mpi(const void* send, void* receive) const {
  const auto each = static_cast<MpiCount>(each_), mine = static_cast<MpiCount>(input_.count);
  switch (collective_) {
    case mq::Collective::reduce_scatter:
      if (counts_.empty())
        return MQ_LARGE(MPI_Reduce_scatter_block)(send, receive, each, type_, MPI_SUM, comm_);
      return MQ_LARGE(MPI_Reduce_scatter)(send, receive, mpi_counts_.data(), type_, MPI_SUM, comm_);
    case mq::Collective::allgather:
      if (counts_.empty()) return MQ_LARGE(MPI_Allgather)(send, mine, type_, receive, each, type_, comm_);
      return MQ_LARGE(MPI_Allgatherv)(send, mine, type_, receive, mpi_counts_.data(),
                                      mpi_displacements_.data(), type_, comm_);
    default: break;  // allreduce: no other collective has a workload
  }
  return mpi_sum(send, receive, count_, type_, comm_);
}

int CollectiveCall::ours(const void* send, void* receive, MPI_Info info) const {
  const auto mine = static_cast<MPI_Count>(input_.count);
  switch (collective_) {
    case mq::Collective::reduce_scatter:
      if (counts_.empty())
        return MPIQ_Reduce_scatter_block(send, receive, each_, type_, MPI_SUM, comm_, info);
      return MPIQ_Reduce_scatter(send, receive, counts_.data(), type_, MPI_SUM, comm_, info);
    case mq::Collective::allgather:
      if (counts_.empty()) return MPIQ_Allgather(send, mine, type_, receive, each_, type_, comm_, info);
      return MPIQ_Allgatherv(send, mine, type_, receive, counts_.data(), displacements_.data(), type_, comm_,
                             info);
    default: break;
  }
  return MPIQ_Allreduce(send, receive, count_, type_, MPI_SUM, comm_, info);
}

}  // namespace mq::bench
