// What an unmodified program has said by MPI_Pcontrol (preload/control.hpp), as far as the identity of
// vectors and the decision about a call depend on it.
#pragma once

#include <cstdint>

namespace mq {

struct Control {
  bool off = false;         // compress nothing
  std::uint64_t step = 0;   // how many steps were announced; 0: none
  std::uint64_t flush = 0;  // how many flushes were announced
};

}  // namespace mq
