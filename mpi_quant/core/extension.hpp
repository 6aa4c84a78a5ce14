// What a part of the library keeps for a communicator: the run of its blocking calls, the indices of the
// sparse functions, the mirrors of MPIQ_Neighbor_mix. The communicator's state knows no more of it than this.
#pragma once

#include <memory>

#include "mpi_quant/core/listed.hpp"

namespace mq {

class CommState;

class Extension {
 public:
  virtual ~Extension() = default;
  // Forgets what is kept under this key, or with null under any.
  virtual void forget(const char* key) noexcept = 0;
};

// A kind of extension. Each communicator's state gets one of it from make(state), where the ranks still tell
// each other of missing memory; make() throws std::bad_alloc. The extension is destroyed before the rest of
// the state.
struct ExtensionKind : Listed<ExtensionKind> {
  explicit ExtensionKind(std::unique_ptr<Extension> (*f)(CommState&)) noexcept : make(f) {}
  std::unique_ptr<Extension> (*make)(CommState& state);
};

}  // namespace mq
