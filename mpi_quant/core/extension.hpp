// What another part of the library keeps for a communicator: the sparse functions, and MPIQ_Neighbor_mix. The core knows
// no more of it than this.
#pragma once

#include <memory>

#include "mpi_quant/core/listed.hpp"

namespace mq {

class Extension {
 public:
  virtual ~Extension() = default;
  // Forgets what is kept under this key, or with null under any.
  virtual void forget(const char* key) noexcept = 0;
};

// A kind of extension. Each communicator's state gets one of it from make(), where the ranks still tell each other of missing
// memory; make() throws std::bad_alloc.
struct ExtensionKind : Listed<ExtensionKind> {
  explicit ExtensionKind(std::unique_ptr<Extension> (*f)()) noexcept : make(f) {}
  std::unique_ptr<Extension> (*make)();
};

}  // namespace mq
