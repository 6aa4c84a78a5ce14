// Layers as vectors of a sweep: from a file of the user's, and fused as training frameworks fuse gradients.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/models.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// Lines NAME,COUNT; empty ones, those that begin with '#' and a head "name,count" say nothing. Names have at
// most 40 characters. An error names the line.
Result<std::vector<Layer>> parse_layers(std::string_view text);

// Neighbouring layers with at most so many elements together, a larger layer alone; the last layers, whose
// gradients are there first, make the first bucket. A bucket of n + 1 layers is called as the first of them
// that is ready, "NAME+n".
std::vector<Layer> fuse_layers(const std::vector<Layer>& layers, std::uint64_t most_elements);

}  // namespace mq::bench
