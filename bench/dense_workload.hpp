// The measured collective of dense vectors. The pools of vectors are made once
// for a sweep, and calls use one slot after another.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/gpu.hpp"
#include "bench/options.hpp"
#include "bench/workload.hpp"

namespace mq::bench {

// pool_bytes: of each of the two pools. recording: the input, if it is a file. gpu: the GPU that holds the
// vectors; null with --memory host. Throws std::bad_alloc; while the collective lives, its functions may
// throw GpuError.
std::unique_ptr<Collective> make_dense_collective(const Options& options, std::uint64_t pool_bytes, int rank,
                                                  std::shared_ptr<const Recording> recording,
                                                  std::shared_ptr<const Gpu> gpu);

}  // namespace mq::bench
