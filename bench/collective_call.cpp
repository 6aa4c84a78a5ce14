#include "bench/collective_call.hpp"

#include <cstddef>
#include <type_traits>

// The three forms of a function. MPI has persistent ones from MPI 4 on.
#define MQ_OURS(Name, name) MPIQ_##Name, MPIQ_I##name, MPIQ_##Name##_init
#if MPI_VERSION >= 4
#  define MQ_MPIS(Name, name) MPI_##Name##_c, MPI_I##name##_c, MPI_##Name##_init_c
#else
#  define MQ_MPIS(Name, name) MPI_##Name, MPI_I##name, nullptr
#endif

namespace mq::bench {
namespace {

// Makes, starts or prepares a call by one of the forms of a function, with the arguments that all have.
template <class Handle>
struct Making {
  Form form;
  MPI_Comm comm;
  MPI_Info info;
  Handle* request;

  template <class Blocking, class Starting, class Preparing, class... Arguments>
  int operator()(Blocking blocking, Starting starting, Preparing preparing, Arguments... arguments) const {
    constexpr bool is_mpi = std::is_same_v<Handle, MPI_Request>;
    if constexpr (is_mpi) {
      if (form == Form::blocking) return blocking(arguments..., comm);
      if (form == Form::nonblocking) return starting(arguments..., comm, request);
    } else {
      if (form == Form::blocking) return blocking(arguments..., comm, info);
      if (form == Form::nonblocking) return starting(arguments..., comm, info, request);
    }
    if constexpr (std::is_same_v<Preparing, std::nullptr_t>)
      return MPI_ERR_UNSUPPORTED_OPERATION;
    else
      return preparing(arguments..., comm, info, request);
  }
};

}  // namespace

int mpi_sum(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Comm comm) {
  return Making<MPI_Request>{Form::blocking, comm, MPI_INFO_NULL, nullptr}(
      MQ_MPIS(Allreduce, allreduce), send, receive, static_cast<MpiCount>(count), type, MPI_SUM);
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

int CollectiveCall::mpi(const void* send, void* receive, Form form, MPI_Request* request) const {
  const Making<MPI_Request> make{form, comm_, MPI_INFO_NULL, request};
  const auto count = static_cast<MpiCount>(count_), each = static_cast<MpiCount>(each_),
             mine = static_cast<MpiCount>(input_.count);
  const bool even = counts_.empty();
  switch (collective_) {
    case mq::Collective::reduce_scatter:
      return even ? make(MQ_MPIS(Reduce_scatter_block, reduce_scatter_block), send, receive, each, type_,
                         MPI_SUM)
                  : make(MQ_MPIS(Reduce_scatter, reduce_scatter), send, receive, mpi_counts_.data(), type_,
                         MPI_SUM);
    case mq::Collective::allgather:
      return even ? make(MQ_MPIS(Allgather, allgather), send, mine, type_, receive, each, type_)
                  : make(MQ_MPIS(Allgatherv, allgatherv), send, mine, type_, receive, mpi_counts_.data(),
                         mpi_displacements_.data(), type_);
    case mq::Collective::bcast: return make(MQ_MPIS(Bcast, bcast), receive, count, type_, kRoot);
    case mq::Collective::reduce:
      return make(MQ_MPIS(Reduce, reduce), brought(send, receive), receive, count, type_, MPI_SUM, kRoot);
    case mq::Collective::allreduce: break;
  }
  return make(MQ_MPIS(Allreduce, allreduce), send, receive, count, type_, MPI_SUM);
}

int CollectiveCall::ours(const void* send, void* receive, MPI_Info info, Form form,
                         MPIQ_Request* request) const {
  const Making<MPIQ_Request> make{form, comm_, info, request};
  const auto mine = static_cast<MPI_Count>(input_.count);
  const bool even = counts_.empty();
  switch (collective_) {
    case mq::Collective::reduce_scatter:
      return even ? make(MQ_OURS(Reduce_scatter_block, reduce_scatter_block), send, receive, each_, type_,
                         MPI_SUM)
                  : make(MQ_OURS(Reduce_scatter, reduce_scatter), send, receive, counts_.data(), type_,
                         MPI_SUM);
    case mq::Collective::allgather:
      return even ? make(MQ_OURS(Allgather, allgather), send, mine, type_, receive, each_, type_)
                  : make(MQ_OURS(Allgatherv, allgatherv), send, mine, type_, receive, counts_.data(),
                         displacements_.data(), type_);
    case mq::Collective::bcast: return make(MQ_OURS(Bcast, bcast), receive, count_, type_, kRoot);
    case mq::Collective::reduce:
      return make(MQ_OURS(Reduce, reduce), brought(send, receive), receive, count_, type_, MPI_SUM, kRoot);
    case mq::Collective::allreduce: break;
  }
  return make(MQ_OURS(Allreduce, allreduce), send, receive, count_, type_, MPI_SUM);
}

}  // namespace mq::bench
