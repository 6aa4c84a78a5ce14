// What another part of the library keeps for a communicator: the sparse functions, and MPIQ_Neighbor_mix. The core knows
// no more of it than this.
#pragma once

#include <memory>

namespace mq {

class Extension {
 public:
  virtual ~Extension() = default;
  // Forgets what is kept under this key, or with null under any.
  virtual void forget(const char* key) noexcept = 0;
};

// Made with the state of a communicator, where the ranks still tell each other of missing memory. Throws
// std::bad_alloc. Defined where the extension is: sparse/state.cpp.
std::unique_ptr<Extension> make_extension();

}  // namespace mq
