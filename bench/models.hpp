// Layer sizes of well-known models: the vectors that data-parallel training reduces in practice. The tables
// are built from the published architectures. The unit test compares their sums with the published numbers of
// parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mq::bench {

// Weights and bias of one layer. A batch normalisation counts as part of the convolution before it.
struct Layer {
  std::string name;
  std::uint64_t count;  // parameters
};

struct Model {
  std::string_view name;
  std::string_view source;
  std::uint64_t published_total;
  std::vector<Layer> (*layers)();
};

std::span<const Model> models();
const Model* find_model(std::string_view name);  // null if there is none

}  // namespace mq::bench
