// The measured reduction of sparse vectors: lists from a seed, and what every method needs of them. Buffers
// are always the same ones, because a persistent request is bound to them.
#pragma once

#include <memory>

#include "bench/options.hpp"
#include "bench/workload.hpp"

namespace mq::bench {

std::unique_ptr<Collective> make_sparse_collective(const Options& options);

}  // namespace mq::bench
