// MPI's own reduce-scatters, allgathers, broadcasts and reductions to a root, blocking or not, with the
// arguments that the caller gave. An MPI of version 3 takes counts and displacements of type int only.

#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/exact_check.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/parted_call.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/request.hpp"

namespace mq {
namespace {

// Where MPI makes a call. Without a request MPI returns when it is over.
struct Way {
  MPI_Comm comm;
  MPI_Request* request = nullptr;

  // By one of two functions of MPI that take the same arguments.
  template <class Blocking, class Starting, class... Arguments>
  int operator()(Blocking blocking, Starting starting, Arguments... arguments) const {
    return request == nullptr ? blocking(arguments..., comm) : starting(arguments..., comm, request);
  }
};
// The blocking function of MPI and the other one.
#define MQ_BOTH(function) real_mpi().function, real_mpi().i##function

int reduce_scatter_block(const Call& c, const Way& way) {
  const MPI_Count each = c.parted->counts.each;
#if MPI_VERSION >= 4
  if (!fits_int(each))
    return way(MQ_BOTH(reduce_scatter_block_c), c.sendbuf, c.recvbuf, each, c.mpi_type(), c.op);
#endif
  return way(MQ_BOTH(reduce_scatter_block), c.sendbuf, c.recvbuf, static_cast<int>(each), c.mpi_type(), c.op);
}

int reduce_scatter(const Call& c, const Way& way, const int* counts) {
  return way(MQ_BOTH(reduce_scatter), c.sendbuf, c.recvbuf, counts, c.mpi_type(), c.op);
}

int allgather(const Call& c, const Way& way) {
  const GatherArguments& g = c.parted->gather;
  const MPI_Count each = c.parted->counts.each;
#if MPI_VERSION >= 4
  if (!fits_int(each) || !fits_int(g.sendcount))
    return way(MQ_BOTH(allgather_c), c.sendbuf, g.sendcount, g.sendtype, c.recvbuf, each, g.recvtype);
#endif
  return way(MQ_BOTH(allgather), c.sendbuf, static_cast<int>(g.sendcount), g.sendtype, c.recvbuf,
             static_cast<int>(each), g.recvtype);
}

int allgatherv(const Call& c, const Way& way, const int* counts, const int* displs) {
  const GatherArguments& g = c.parted->gather;
  return way(MQ_BOTH(allgatherv), c.sendbuf, static_cast<int>(g.sendcount), g.sendtype, c.recvbuf, counts,
             displs, g.recvtype);
}

int bcast(const Call& c, const Way& way) {
  const MPI_Count n = c.parted->counts.each;
#if MPI_VERSION >= 4
  if (!fits_int(n)) return way(MQ_BOTH(bcast_c), c.recvbuf, n, c.mpi_type(), c.parted->root);
#endif
  return way(MQ_BOTH(bcast), c.recvbuf, static_cast<int>(n), c.mpi_type(), c.parted->root);
}

int reduce(const Call& c, const Way& way) {
  const MPI_Count n = c.parted->counts.each;
#if MPI_VERSION >= 4
  if (!fits_int(n))
    return way(MQ_BOTH(reduce_c), c.sendbuf, c.recvbuf, n, c.mpi_type(), c.op, c.parted->root);
#endif
  return way(MQ_BOTH(reduce), c.sendbuf, c.recvbuf, static_cast<int>(n), c.mpi_type(), c.op, c.parted->root);
}

bool gathers(const Call& c) { return c.collective == Collective::allgather; }

Status too_large() {
  return {Code::bad_argument, "a count or displacement is more than this MPI library takes"};
}

// By functions with arrays of MPI_Count, or, where the MPI library has none, with copies of type int. Those
// have to stay until the call is over, so a request has made them before, if the numbers fit.
Result<int> exact_large(const Call& c, const Way& way) {
#if MPI_VERSION >= 4
  const MPI_Count* const large = c.parted->counts.by_rank_large;
  const GatherArguments& g = c.parted->gather;
  if (!gathers(c) && real_mpi().reduce_scatter_c != nullptr)
    return way(MQ_BOTH(reduce_scatter_c), c.sendbuf, c.recvbuf, large, c.mpi_type(), c.op);
  if (gathers(c) && real_mpi().allgatherv_c != nullptr)
    return way(MQ_BOTH(allgatherv_c), c.sendbuf, g.sendcount, g.sendtype, c.recvbuf, large, g.displs_large,
               g.recvtype);
#endif
  if (way.request != nullptr) return too_large();
  IntArrays ints;
  const Status fit = guarded_status([&] { return ints.take(c) ? Status{} : too_large(); });
  if (!fit.ok()) return fit;
  return gathers(c) ? allgatherv(c, way, ints.counts.data(), ints.displs.data())
                    : reduce_scatter(c, way, ints.counts.data());
}

Result<int> make_exact(const Call& c, const Way& way) {
  const PartedCall& parted = *c.parted;
  if (parted.counts.by_rank_large != nullptr) return exact_large(c, way);
  if (parted.counts.by_rank != nullptr)
    return gathers(c) ? allgatherv(c, way, parted.counts.by_rank, parted.gather.displs)
                      : reduce_scatter(c, way, parted.counts.by_rank);
#if MPI_VERSION < 4
  if (!fits_int(parted.counts.each) || !fits_int(parted.gather.sendcount)) return too_large();
#endif
  if (c.collective == Collective::bcast) return bcast(c, way);
  if (c.collective == Collective::reduce) return reduce(c, way);
  return gathers(c) ? allgather(c, way) : reduce_scatter_block(c, way);
}

}  // namespace

Status check_ints(const Call& c) {
#if MPI_VERSION >= 4
  if (real_mpi().allgatherv_c != nullptr) return {};  // then this library has all functions of MPI 4
#endif
  const PartedCall& parted = *c.parted;
  if (parted.counts.by_rank_large == nullptr)
    return fits_int(parted.counts.each) && fits_int(parted.gather.sendcount) ? Status{} : too_large();
  IntArrays ints;
  return ints.take(c) ? Status{} : too_large();
}

int exact_parted(const Call& c) {
  const Result<int> code = make_exact(c, {c.comm});
  return code.ok() ? *code : raise(c.comm, code.status());
}

Status start_exact_parted(const Call& c, MPI_Comm comm, MPI_Request& request) {
  const Result<int> code = make_exact(c, {comm, &request});
  return code.ok() ? start_status(*code, starting_name(c)) : code.status();
}

const char* starting_name(const Call& c) {
  const bool is_uneven = c.parted->counts.is_uneven();
  switch (c.collective) {
    case Collective::reduce_scatter: return is_uneven ? "MPI_Ireduce_scatter" : "MPI_Ireduce_scatter_block";
    case Collective::allgather: return is_uneven ? "MPI_Iallgatherv" : "MPI_Iallgather";
    case Collective::bcast: return "MPI_Ibcast";
    case Collective::reduce: return "MPI_Ireduce";
    case Collective::allreduce: break;
  }
  return "MPI_Iallreduce";
}

}  // namespace mq
