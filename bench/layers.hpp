// Layers as the vectors of a sweep: from a user's file, and fused as training frameworks fuse gradients.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/models.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// Reads lines NAME,COUNT. Empty lines, lines that begin with '#' and a head "name,count" are ignored. Names
// have at most 40 characters. An error names the line.
Result<std::vector<Layer>> parse_layers(std::string_view text);

// Puts neighbouring layers with at most most_elements elements together; a larger layer stays alone. The last
// layers make the first bucket, because their gradients are ready first. A bucket of n + 1 layers is called
// "NAME+n" after the layer that is ready first.
std::vector<Layer> fuse_layers(const std::vector<Layer>& layers, std::uint64_t most_elements);

}  // namespace mq::bench
