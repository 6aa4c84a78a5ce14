// The measured reduction of sparse vectors: lists from a seed, and everything that each method needs of them.
// The buffers are always the same, because a persistent request is bound to its buffers.
#pragma once

#include <memory>

#include "bench/options.hpp"
#include "bench/workload.hpp"

namespace mq::bench {

std::unique_ptr<Collective> make_sparse_collective(const Options& options);

}  // namespace mq::bench
