// How a call was reduced, and why. The preload library records it, and its report names it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mq {

enum class Reason : std::uint8_t {
  compressed,           // by this library
  would_be_compressed,  // MPIQ_MODE is explain or advise
  // By MPI, because the call is:
  small,    // below 64 KiB, or below 4 KiB if a rule says "small"
  type,     // no reals, see core/datatypes.hpp
  op,       // not MPI_SUM
  handle,   // null or invalid: MPI's error
  inter,    // on an intercommunicator
  alone,    // on one rank
  foreign,  // on a communicator that reaches beyond MPI_COMM_WORLD
  // By MPI, because:
  rule,             // the policy says mpi, or has no rule for it
  differs,          // the ranks have different policies
  version,          // the ranks have different versions of the library
  switched_off,     // MPI_Pcontrol switched the library off
  split,            // the ranks chose differently: call sites, keys or MPI_Pcontrol
  slower,           // auto found nothing within its limit that is faster than MPI, or has yet to learn that
  inexact,          // auto: the data of this call would lose more than the limit
  no_residual,      // auto(error=feedback): it has no key, so nobody knows its residual
  guard,            // the guard found an error over the budget, in this call or an earlier one
  nonblocking,      // it is MPI_Iallreduce, MPI_Ibcast and so on
  persistent,       // it is MPI_Allreduce_init, MPI_Bcast_init and so on
  outside,          // it comes before MPI_Init or after MPI_Finalize began
  no_communicator,  // MPI had no communicator left for this library
  no_memory,        // this library had no memory for it, and MPI may have enough
  overlap,          // its vectors share memory
  capture,          // a CUDA graph was being captured, which cannot hold what this library does
  no_matrix,        // the method is a scheme that cannot serve the call: lowrank needs a matrix and a key
  failed,           // by nobody: the call ended in an error of this library
};
inline constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::failed) + 1;

}  // namespace mq
