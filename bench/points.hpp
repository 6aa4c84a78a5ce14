// The sweep as a list of points. A point is what is fixed while all methods are measured in turn. A point and
// a method make a row of the result file. The key of a row is a hash of every independent variable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/options.hpp"

namespace mq::bench {

struct Point {
  kernels::Element element;
  int ranks;
  std::uint64_t count;     // elements
  std::string layer;       // "" if the size is not from a layer
  int layers_alike = 1;    // layers of the model with this many parameters; `layer` is the first of them
  std::uint64_t side = 0;  // of the square matrix; 0: a vector
  std::vector<MethodWord> methods = {};  // as in the options, with {side} replaced; isolated: one of them
  SupportSpec support = {};              // for sparse vectors
  std::uint64_t stride = 1;              // for sparse vectors; elements at an index
  std::size_t number = 0;                // of the size among the sizes of the options, in their order
  Arrival arrival = {};
  // The word that replaces {layer} in the path of a recording.
  std::string layer_word() const { return layer.empty() ? std::to_string(number) : layer; }
  std::uint64_t bytes() const { return count * kernels::element_bytes(element); }
};

// Every point once, in the order to run them; the same on all ranks. Fails if a size is not a whole number of
// elements, if a method cannot be used at some point, or if the launch has too few ranks.
Result<std::vector<Point>> make_points(const Options&, int launch_ranks);

struct Placement {
  int nodes = 1, ranks_per_node = 1;
};

// The text of the columns `model` and `mode`. A model with its buckets ("resnet50/26214400") differs from the
// same model without. A method is also called isolated if it is the only one.
std::string model_label(const Options&);
const char* mode(const Options&);

// What identifies a row, as canonical JSON; and the 128-bit hash of this text (32 hexadecimal digits).
std::string variables_json(const Options&, const Point&, const MethodWord&, const Placement&);
std::string hash128(std::string_view text);
// The part of it that only sparse vectors have: "density=0.01,distribution=uniform,...".
std::string sparse_params(const Options&, const Point&);

// The size of one of the two pools of a rank in bytes, see buffers.hpp.
std::uint64_t pool_bytes(const Options&, std::uint64_t largest_bytes, int ranks_per_node);

}  // namespace mq::bench
