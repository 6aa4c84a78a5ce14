// Turns what was measured into the rows of the result file. Every derived number is computed here, once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/detour.hpp"
#include "bench/measure.hpp"
#include "bench/points.hpp"
#include "bench/report.hpp"

namespace mq::bench {

struct Circumstances {  // of a point, equal for all its methods
  Placement placement;
  bool oversubscribed = false;
  std::int32_t input_id = -1;
  std::uint64_t order_seed = 0;
  std::string start_utc;
  double wall_s = kUnknown;
  Detours detours{};
};

// The text of the method that speed-ups of a point are relative to; "" if it is best-dense and no dense
// method has a time. The fastest is the one with the least median of the repetitions that count. The
// same times choose it and are compared with others. So it looks a little faster than it is, and compressed
// methods a little slower.
std::string baseline_at(const Options&, const Point&, const std::vector<Outcome>&, int compute_percent = -1);

// One measurement for each method, in the order of point.methods.
std::vector<Measurement> tabulate(const Options&, const Point&, const Circumstances&,
                                  std::vector<Outcome> outcomes);

}  // namespace mq::bench
