// What a call with a memory rule does beside the steps of its run (rule_steps.hpp): sums over this rank's
// whole vector before the agreement, and after it arrays that start at zero, or a call without messages.

#include <algorithm>

#include "kernels/memory_sums.hpp"
#include "mpi_quant/device/placement.hpp"
#include "mpi_quant/engine/memory_steps.hpp"

namespace mq {
namespace {

using kernels::Distances;

// Of Distances, which need the most room.
std::size_t sums_bytes(const Reduction& reduction) {
  return kernels::memory_sums::parts_of(reduction.count) * sizeof(Distances);
}

bool needs_sums(const Reduction& reduction) {
  const CallFeedback& memory = reduction.memory;
  return memory.ops != nullptr && (memory.rule->measures(memory.params) || memory.terms.zeta >= 0);
}

}  // namespace

std::size_t DevicePlacement::pinned_bytes(const Reduction& reduction) const {
  return sums_at() + (needs_sums(reduction) ? sums_bytes(reduction) : 0);
}

kernels::DeviceMemory DevicePlacement::rule_of(const Reduction& reduction) const {
  return {reduction.memory.rule, reduction.element, backend_.device_reduction.shape};
}

// Waits for what `launch` launches in main().
template <class F>
Status DevicePlacement::run_now(const F& launch) {
  launch(rows_.api->launcher(work_->main()));
  Status launched = rows_.api->launch_error(work_->main());
  Status ended = rows_.api->synchronize(work_->main());
  MQ_TRY(std::move(launched));
  return ended;
}

Status DevicePlacement::memory_factor(const Reduction& reduction, double& factor) {
  if (mode_ != Mode::device) {
    factor = mq::memory_factor(reduction);
    return {};
  }
  auto* const sums = reinterpret_cast<double*>(work_->pinned() + sums_at());
  Status status;
  factor = mq::memory_factor(reduction, [&](double scale) {
    const Status run = run_now([&](const kernels::Launcher& launcher) {
      rule_of(reduction).squares(reduction.input, reduction.count, scale, sums, launcher);
    });
    if (status.ok()) status = run;
    double all = 0;
    for (std::size_t i = 0; i < kernels::memory_sums::parts_of(reduction.count) && status.ok(); ++i)
      all += sums[i];
    return all;
  });
  return status;
}

Status DevicePlacement::has_moved(const Reduction& reduction, bool& moved) {
  if (mode_ != Mode::device) {
    moved = mq::has_moved(reduction);
    return {};
  }
  auto* const sums = reinterpret_cast<Distances*>(work_->pinned() + sums_at());
  kernels::MemoryTile tile = tile_at(reduction, reduction.residual, reduction.count);
  tile.x = reduction.input;
  Status status;
  moved = mq::has_moved(reduction, [&](double scale) {
    const Status run = run_now([&](const kernels::Launcher& launcher) {
      rule_of(reduction).distances(tile, scale, sums, launcher);
    });
    if (status.ok()) status = run;
    Distances all;
    for (std::size_t i = 0; i < kernels::memory_sums::parts_of(reduction.count) && status.ok(); ++i) {
      all.from_estimate += sums[i].from_estimate;
      all.from_last += sums[i].from_last;
    }
    return all;
  });
  return status;
}

Status DevicePlacement::zero(std::byte* array, std::size_t bytes) {
  if (mode_ != Mode::device) {
    std::fill_n(array, bytes, std::byte{0});
    return {};
  }
  MQ_TRY(rows_.api->zero(work_->main(), array, bytes));
  return work_->fork();
}

// On a device in parts as long as the memory of a segment for values of half types allows.
Status DevicePlacement::deliver_estimates(const Reduction& reduction) {
  if (mode_ != Mode::device) {
    mq::deliver_estimates(reduction);
    return {};
  }
  const bool half = reduction.convert != nullptr;
  const std::size_t in_bytes = kernels::element_bytes(reduction.element);
  const std::size_t most = half ? layout_of(reduction).max_chunk() : reduction.count;
  std::byte* const widened = backend_.device_reduction.pipelines[0].memory;
  const kernels::DeviceMemory rule = rule_of(reduction);
  const kernels::DeviceConvertOps* const convert = backend_.device_reduction.convert;
  const kernels::DeviceShape& shape = backend_.device_reduction.shape;
  return run_now([&](const kernels::Launcher& launcher) {
    for (std::size_t first = 0; first < reduction.count; first += most) {
      const std::size_t n = std::min(most, reduction.count - first);
      const std::byte* const x = reduction.input + first * in_bytes;
      std::byte* const out = reduction.output + first * in_bytes;
      std::byte* const sum = half ? widened : out;
      kernels::MemoryTile tile = tile_at(reduction, reduction.residual + value_bytes(reduction, first), n);
      tile.x = half ? widened : x;
      if (half) convert->widen(x, widened, n, shape, launcher);
      rule.run(kernels::MemoryFunction::skip, tile, nullptr, launcher);
      rule.nothing(nullptr, sum, value_bytes(reduction, n), launcher);
      rule.run(kernels::MemoryFunction::deliver, tile, sum, launcher);
      if (half)
        convert->narrow(sum, out, nullptr, n, reduction.divisor, shape, launcher);
      else if (reduction.divisor != 1)
        kernels::device_divide(out, n, reduction.element, reduction.divisor, shape, launcher);
    }
  });
}

}  // namespace mq
