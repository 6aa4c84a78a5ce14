// How large is the error of a codec, and how large would the error of the best code of its kind be?
// mpiq-quality is separate from mpiq-bench because no ranks take part, and all numbers are a function of the
// arguments.
//
// The kinds of code, and the least squared error of each in a block of n elements:
//
// - rounding (bf16, f16): every element becomes the nearest number of the format.
// - two levels (onebit): the best scalar quantizer with two values, which is 2-means in one dimension. The
//   two sets are neighbours in sorted order. So it takes a sort (n log n), and a scan of all n - 1 cuts over
//   prefix sums.
// - ternary (threshold, adaptive): values below, at or above 0. k of them are not 0, where k is the codec's
//   choice. If i elements are above, they are the i largest, and their mean is the best value; it takes
//   (sum of them)^2 / i off the error. The same holds for those below. It takes a scan over i.
// - sparse (topk): all but k elements are 0, where k is the codec's choice. The error is the sum of the n - k
//   smallest squares.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/data.hpp"
#include "bench/parse_lists.hpp"
#include "bench/rows.hpp"

namespace mq::bench {

double two_level_error(std::span<const float> v);               // squared
double ternary_error(std::span<const float> v, std::size_t k);  // squared, k <= v.size()
double sparse_error(std::span<const float> v, std::size_t k);   // squared, k <= v.size()

struct Quality {
  std::string method, data;
  std::size_t elements = 0;
  double bytes_per_element = kUnknown;  // per encode
  double rel_err = kUnknown;            // |v - decoded| / |v|; 0 for v = 0
  double optimum = kUnknown;            // rel_err of the best code of this kind, if the kind is known
  double over_optimum = kUnknown;       // rel_err / optimum; unknown if floats are not precise enough for it
  int calls = 0;
  double residual = kUnknown;  // |residual| / |x| after `calls` calls with feedback, each on a new x
};

// All codecs with their preset parameters; the same with every other word of each parameter that is a word;
// and the methods of quality_variants() whose codec exists.
std::vector<MethodWord> quality_methods();
std::span<const std::string_view> quality_variants();  // numbers that show more than the presets do

// One row for each method, on vectors of floats from the generator. The first vector is what rank 0 would
// have, the later ones what ranks 1, 2, and so on would have: new numbers, but the same scales if the
// distribution has scales. For a recording the vectors are its steps in order or, if it has none, the next n
// elements.
std::vector<Quality> measure_quality(std::span<const MethodWord> methods, const DataSpec& data, std::size_t n,
                                     int calls, std::shared_ptr<const Recording> recording = nullptr);

std::string quality_csv(std::span<const Quality> rows);  // with a header, unknown is empty

}  // namespace mq::bench
