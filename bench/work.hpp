// Computation for between the start and the end of a call that does not block. It is always the same work, so
// that what the call takes from the processor shows in its time.
#pragma once

#include <array>

namespace mq::bench {

class Work {
 public:
  // Finds how much work this processor does in a second; takes some milliseconds. Local.
  Work();
  // Work that takes about so many seconds if nothing else runs on the processor. Calls no function of MPI.
  void operator()(double seconds);

 private:
  void passes(long n);
  std::array<double, 512> x_;  // stays in the first cache, so that it does not depend on the vectors
  double passes_per_s_ = 1;
};

}  // namespace mq::bench
