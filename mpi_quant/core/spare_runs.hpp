// Keeps the runs of requests that are over, and gives them to the next requests of the communicator. A run
// keeps the memory of its calls. A new run for each request would get new pages from the system each time:
// with eight bf16 calls of 256 KiB in flight a call took 2.8 times as long. There are at most as many runs of
// a size as requests of this size were in flight at the same time. A review after some requests, of any size,
// frees the runs that nobody needed since the last one.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "mpi_quant/core/extension.hpp"
#include "mpi_quant/core/scheme_run.hpp"

namespace mq {

// The state's mutex must be held.
class SpareRuns final : public Extension {
 public:
  void forget(const char*) noexcept override {}  // a run holds a key during its call only

  // A run for a vector of so many bytes. Throws std::bad_alloc.
  std::unique_ptr<Runs> take(CommState& state, std::size_t bytes);
  // A run that take() gave for so many bytes. Its call is over.
  void give_back(std::unique_ptr<Runs> run, std::size_t bytes) noexcept;

 private:
  struct Size {
    std::vector<std::unique_ptr<Runs>> spare;  // has room for all runs
    std::size_t runs = 0;                      // spare ones and runs of requests
    std::size_t unused = 0;                    // fewest spare ones since the last review
  };
  void review() noexcept;

  std::array<Size, std::numeric_limits<std::size_t>::digits + 1> sizes_;  // by powers of 2
  std::size_t runs_ = 0, returns_ = 0;  // of all sizes; since the last review
};

SpareRuns& spare_runs(CommState& state);

}  // namespace mq
