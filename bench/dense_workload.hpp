// The measured allreduce of dense vectors: pools of vectors that are marched through, made once for a sweep.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/gpu.hpp"
#include "bench/options.hpp"
#include "bench/workload.hpp"

namespace mq::bench {

// pool_bytes: of each of the two pools. recording: the input, if it is a file. gpu: where the vectors are,
// null with --memory host. Throws std::bad_alloc, and as long as it lives GpuError.
std::unique_ptr<Collective> make_dense_collective(const Options& options, std::uint64_t pool_bytes, int rank,
                                                  std::shared_ptr<const Recording> recording,
                                                  std::shared_ptr<const Gpu> gpu);

}  // namespace mq::bench
