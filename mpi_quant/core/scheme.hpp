// What the core and the schemes give each other. A scheme reduces one call by several ordinary ones, its
// parts. It holds the turn of the communicator from its agreement to its end, so that no other call comes
// between.
#pragma once

#include <string_view>

#include "mpi_quant/core/answer.hpp"
#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/listed.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {

// Reduces a call by the scheme of its method, but for the answer.
using SchemeRunner = Outcome (*)(CommState& state, const Request& request, const Decision& decision);
struct SchemeEntry : Listed<SchemeEntry> {
  SchemeEntry(std::string_view n, SchemeRunner f) noexcept : name(n), run(f) {}
  std::string_view name;  // of the scheme in policies
  SchemeRunner run;
};

// The agreement of a call by a scheme. Delivered if all ranks bring this signature and none has a local
// error. Not delivered and no error if MPI has no communicator left for the library, and MPI may reduce
// instead.
// calls: that this rank's residual of the call's key has served. It becomes the greatest of all ranks.
Outcome open_scheme(CommState& state, const Turn& turn, const Request& request, const Signature& signature,
                    Status local_error, std::uint64_t& calls);
// One part. The turn shows that the scheme has been opened. An error that comes with `ran` is this rank's
// alone: the rank has to bring it as the local error of the next part, so that the others do not wait for it.
Outcome run_part(CommState& state, const Turn& turn, const Call& call, const Method& method,
                 Status local_error);

}  // namespace mq
