// MPI's own reduce-scatters, allgathers, broadcasts and reductions to a root, with the arguments that the
// caller gave. An MPI of version 3 takes counts and displacements of type int only.

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/parted_call.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/request.hpp"

namespace mq {
namespace {

bool fits(MPI_Count n) {
  return n >= std::numeric_limits<int>::min() && n <= std::numeric_limits<int>::max();
}

int reduce_scatter_block(const Call& c) {
  const MPI_Count each = c.parted->counts.each;
#if MPI_VERSION >= 4
  if (!fits(each))
    return real_mpi().reduce_scatter_block_c(c.sendbuf, c.recvbuf, each, c.mpi_type(), c.op, c.comm);
#endif
  return real_mpi().reduce_scatter_block(c.sendbuf, c.recvbuf, static_cast<int>(each), c.mpi_type(), c.op,
                                         c.comm);
}

int reduce_scatter(const Call& c, const int* counts) {
  return real_mpi().reduce_scatter(c.sendbuf, c.recvbuf, counts, c.mpi_type(), c.op, c.comm);
}

int allgather(const Call& c) {
  const GatherArguments& g = c.parted->gather;
  const MPI_Count each = c.parted->counts.each;
#if MPI_VERSION >= 4
  if (!fits(each) || !fits(g.sendcount))
    return real_mpi().allgather_c(c.sendbuf, g.sendcount, g.sendtype, c.recvbuf, each, g.recvtype, c.comm);
#endif
  return real_mpi().allgather(c.sendbuf, static_cast<int>(g.sendcount), g.sendtype, c.recvbuf,
                              static_cast<int>(each), g.recvtype, c.comm);
}

int allgatherv(const Call& c, const int* counts, const int* displs) {
  const GatherArguments& g = c.parted->gather;
  return real_mpi().allgatherv(c.sendbuf, static_cast<int>(g.sendcount), g.sendtype, c.recvbuf, counts,
                               displs, g.recvtype, c.comm);
}

int bcast(const Call& c) {
  const MPI_Count n = c.parted->counts.each;
#if MPI_VERSION >= 4
  if (!fits(n)) return real_mpi().bcast_c(c.recvbuf, n, c.mpi_type(), c.parted->root, c.comm);
#endif
  return real_mpi().bcast(c.recvbuf, static_cast<int>(n), c.mpi_type(), c.parted->root, c.comm);
}

int reduce(const Call& c) {
  const MPI_Count n = c.parted->counts.each;
#if MPI_VERSION >= 4
  if (!fits(n))
    return real_mpi().reduce_c(c.sendbuf, c.recvbuf, n, c.mpi_type(), c.op, c.parted->root, c.comm);
#endif
  return real_mpi().reduce(c.sendbuf, c.recvbuf, static_cast<int>(n), c.mpi_type(), c.op, c.parted->root,
                           c.comm);
}

// By functions with arrays of MPI_Count, or, where the MPI library has none, with copies of type int.
int exact_large(const Call& c) {
  const PartedCall& parted = *c.parted;
  const bool gathers = c.collective == Collective::allgather;
#if MPI_VERSION >= 4
  const MPI_Count* const large = parted.counts.by_rank_large;
  const GatherArguments& g = parted.gather;
  if (!gathers && real_mpi().reduce_scatter_c != nullptr)
    return real_mpi().reduce_scatter_c(c.sendbuf, c.recvbuf, large, c.mpi_type(), c.op, c.comm);
  if (gathers && real_mpi().allgatherv_c != nullptr)
    return real_mpi().allgatherv_c(c.sendbuf, g.sendcount, g.sendtype, c.recvbuf, large, g.displs_large,
                                   g.recvtype, c.comm);
#endif
  int inter = 0, n = 0;  // as many counts as MPI reads
  int code = PMPI_Comm_test_inter(c.comm, &inter);
  if (code == MPI_SUCCESS)
    code = inter && gathers ? PMPI_Comm_remote_size(c.comm, &n) : PMPI_Comm_size(c.comm, &n);
  if (code != MPI_SUCCESS) return code;
  std::vector<int> counts, displs;
  const Status fit = guarded_status([&]() -> Status {
    for (int rank = 0; rank < n; ++rank) {
      const auto displ = gathers ? parted.gather.displ(rank) : 0;
      if (!fits(parted.counts.of(rank)) || !fits(displ))
        return {Code::bad_argument, "a count or displacement is more than this MPI library takes"};
      counts.push_back(static_cast<int>(parted.counts.of(rank)));
      displs.push_back(static_cast<int>(displ));
    }
    return {};
  });
  if (!fit.ok()) return raise(c.comm, fit);
  return gathers ? allgatherv(c, counts.data(), displs.data()) : reduce_scatter(c, counts.data());
}

}  // namespace

int exact_parted(const Call& c) {
  const PartedCall& parted = *c.parted;
  const bool gathers = c.collective == Collective::allgather;
  if (parted.counts.by_rank_large != nullptr) return exact_large(c);
  if (parted.counts.by_rank != nullptr)
    return gathers ? allgatherv(c, parted.counts.by_rank, parted.gather.displs)
                   : reduce_scatter(c, parted.counts.by_rank);
#if MPI_VERSION < 4
  if (!fits(parted.counts.each) || !fits(parted.gather.sendcount))
    return raise(c.comm, {Code::bad_argument, "a count is more than this MPI library takes"});
#endif
  if (c.collective == Collective::bcast) return bcast(c);
  if (c.collective == Collective::reduce) return reduce(c);
  return gathers ? allgather(c) : reduce_scatter_block(c);
}

}  // namespace mq
