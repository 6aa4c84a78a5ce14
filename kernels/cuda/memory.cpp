// Launches of memory rules (memory.cuh).

#include "kernels/cuda/memory.hpp"

#include <algorithm>

#include "kernels/cuda/dense.hpp"
#include "kernels/memory_sums.hpp"

namespace mq::kernels {
namespace {

using namespace memory_rows;

// Four groups of four elements for each thread, if there are enough.
std::size_t grid_for(std::size_t n, const DeviceShape& shape) {
  constexpr std::size_t kOfBlock = std::size_t{16} * kThreads;
  return dense::grid_of((n + kOfBlock - 1) / kOfBlock, shape);
}

bool has(MemoryFunction function, const MemoryOps& ops) {
  switch (function) {
    case MemoryFunction::before: return ops.before != nullptr;
    case MemoryFunction::after: return ops.after != nullptr;
    case MemoryFunction::deliver: return ops.deliver != nullptr;
    case MemoryFunction::skip: return ops.skip != nullptr;
  }
  return false;
}

const std::byte* bytes_at(const void* p) { return static_cast<const std::byte*>(p); }

}  // namespace

void DeviceMemory::run(MemoryFunction function, const MemoryTile& tile, void* sum,
                       const Launcher& launch) const noexcept {
  if (tile.n == 0 || rule->ops == nullptr || !has(function, *rule->ops(element, Isa::scalar))) return;
  const bool is_double = compute_element(element) == Element::f64;
  launch(kNames[static_cast<std::size_t>(function)][is_double ? 1 : 0], grid_for(tile.n, shape), kThreads, 0,
         Run{tile, sum, static_cast<std::uint32_t>(rule - memory_rules().data())});
}

void DeviceMemory::squares(const void* x, std::size_t n, double scale, double* sums,
                           const Launcher& launch) const noexcept {
  if (n > 0)
    launch(names::memory_squares, grid_for(n, shape), kThreads, 0,
           Sums{bytes_at(x), nullptr, nullptr, n, scale, sums, element});
}

void DeviceMemory::distances(const MemoryTile& tile, double scale, Distances* sums,
                             const Launcher& launch) const noexcept {
  static_assert(sizeof(Distances) == 2 * sizeof(double));
  if (tile.n > 0)
    launch(names::memory_distances, grid_for(tile.n, shape), kThreads, 0,
           Sums{bytes_at(tile.x), bytes_at(tile.array[0]), bytes_at(tile.array[2]), tile.n, scale,
                &sums->from_estimate, element});
}

void DeviceMemory::join(std::byte* payload, const std::byte* second, std::size_t most,
                        const DeviceEncoded* first_encoded, const DeviceEncoded* second_encoded,
                        DeviceEncoded* encoded, const Launcher& launch) const noexcept {
  launch(names::memory_join, second == nullptr ? 1 : grid_for(most / 4, shape), kThreads, 0,
         Join{payload, second, first_encoded, second_encoded, encoded});
}

void DeviceMemory::nothing(const void* base, void* x, std::size_t bytes,
                           const Launcher& launch) const noexcept {
  if (bytes > 0)
    launch(names::memory_nothing, grid_for(bytes / 4, shape), kThreads, 0,
           Nothing{bytes_at(base), static_cast<std::byte*>(x), bytes});
}

}  // namespace mq::kernels
