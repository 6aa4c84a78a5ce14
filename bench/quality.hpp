// How far off is a codec, and how far off would the best code of its kind be? Separate from mpiq-bench: no
// ranks take part, and all numbers are a function of the arguments.
//
// The kinds, and the least squared error of each in a block of n elements:
//
// - rounding (bf16, f16): every element to the nearest number of the format;
// - two levels (onebit): the best scalar quantizer with two values, that is 2-means in one dimension. The two
//   sets are neighbours in sorted order: n log n for the sort, then a scan of all n - 1 cuts over prefix sums.
// - ternary (threshold, adaptive): values below, 0, above, of which k are not 0, k as the codec chose it. With
//   i elements above, these are the i largest, and their mean is the best value; it takes (sum of them)^2 / i
//   off the error. Likewise below. A scan over i.
// - sparse (topk): all but k elements, k as the codec chose it, are 0: the squares of the least n - k.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/data.hpp"
#include "bench/lists.hpp"
#include "bench/rows.hpp"

namespace mq::bench {

double two_level_error(std::span<const float> v);               // squared
double ternary_error(std::span<const float> v, std::size_t k);  // squared, k <= v.size()
double sparse_error(std::span<const float> v, std::size_t k);   // squared, k <= v.size()

struct Quality {
  std::string method, data;
  std::size_t elements = 0;
  double bytes_per_element = kUnknown;  // of one encode
  double rel_err = kUnknown;            // |v - decoded| / |v|; 0 for v = 0
  double optimum = kUnknown;            // the same of the best code of this kind, where the kind is known
  double over_optimum = kUnknown;  // rel_err / optimum; unknown if that is beyond the precision of floats
  int calls = 0;
  double residual = kUnknown;  // |residual| / |x| after so many calls with feedback, each on a new x
};

// All codecs with their preset parameters, and with every other word of each parameter that is a word; and
// those of quality_variants() whose codec exists.
std::vector<MethodWord> quality_methods();
std::span<const std::string_view> quality_variants();  // numbers that tell more than the preset

// One for each method, on vectors of floats from the generator: the first of rank 0, the later ones of ranks
// 1, 2 ...: fresh numbers, of the same scales where the distribution has some. Of a recording, the steps one
// after the other, or, if it has none, the next n elements.
std::vector<Quality> measure_quality(std::span<const MethodWord> methods, const DataSpec& data, std::size_t n,
                                     int calls, std::shared_ptr<const Recording> recording = nullptr);

std::string quality_csv(std::span<const Quality> rows);  // with a header, unknown is empty

}  // namespace mq::bench
