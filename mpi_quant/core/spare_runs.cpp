#include "mpi_quant/core/spare_runs.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "mpi_quant/core/comm_state.hpp"

namespace mq {
namespace {

// A review comes after so many returns for each run: a program may start all its requests before it completes
// the first of them.
constexpr std::size_t kReview = 4;

const ExtensionKind kind_of_spare_runs([](CommState&) -> std::unique_ptr<Extension> {
  return std::make_unique<SpareRuns>();
});

std::size_t size_of(std::size_t bytes) { return static_cast<std::size_t>(std::bit_width(bytes)); }

}  // namespace

std::unique_ptr<Runs> SpareRuns::take(CommState& state, std::size_t bytes) {
  Size& size = sizes_[size_of(bytes)];
  if (size.spare.empty()) {
    size.spare.reserve(size.runs + 1);
    auto run = std::make_unique<Runs>(state, RunningCall::Exact::here);
    ++size.runs;
    ++runs_;
    size.unused = 0;
    return run;
  }
  std::unique_ptr<Runs> run = std::move(size.spare.back());
  size.spare.pop_back();
  size.unused = std::min(size.unused, size.spare.size());
  return run;
}

void SpareRuns::give_back(std::unique_ptr<Runs> run, std::size_t bytes) noexcept {
  run->one.rest();
  sizes_[size_of(bytes)].spare.push_back(std::move(run));
  if (++returns_ >= kReview * runs_) review();
}

// Nobody needed the unused ones since the last review. The oldest go: the others may still be in a cache.
void SpareRuns::review() noexcept {
  for (Size& size : sizes_) {
    const auto first = size.spare.begin();
    size.spare.erase(first, first + static_cast<std::ptrdiff_t>(size.unused));
    size.runs -= size.unused;
    runs_ -= size.unused;
    size.unused = size.spare.size();
  }
  returns_ = 0;
}

SpareRuns& spare_runs(CommState& state) {
  return static_cast<SpareRuns&>(state.extension(kind_of_spare_runs));
}

}  // namespace mq
