// What the core and the schemes give each other. A scheme reduces one call by several ordinary ones, its parts. It holds
// the turn of the communicator from its agreement to its end, so that no other call comes between.
#pragma once

#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {

// Reduces a call by the scheme of its method. Defined where schemes are: schemes/low_rank.cpp.
Outcome run_scheme(CommState& state, const Call& call, const CallOptions& options, const Method& method);

// The agreement of a call by a scheme. Ok if all ranks bring this signature and none has a local error. `exact` if MPI
// has no communicator left for the library, and MPI may reduce instead.
// calls: that this rank's residual of the call's key has served. It becomes the greatest of all ranks.
Outcome open_scheme(CommState& state, const Turn& turn, const Call& call, CallOptions options,
                    const Signature& signature, std::uint64_t& calls);
// One part. The turn shows that the scheme has been opened. An error that comes with `ran` is this rank's alone: the rank
// has to bring it as the local error of the next part, so that the others do not wait for it.
Outcome run_part(CommState& state, const Turn& turn, const Call& call, const Method& method,
                 Status local_error);

}  // namespace mq
