// The only place that prints. Results go to standard output, aligned for people. Progress and errors go to
// standard error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/metadata.hpp"
#include "bench/points.hpp"
#include "bench/report.hpp"
#include "bench/rows.hpp"

namespace mq::bench {

void print_out(std::string_view text);
void print_texts(std::string_view out, std::string_view err);  // without any change
void print_error(std::string_view text);                       // "mpiq-bench: ..." and a new line

void print_header(const Options&, const Topology&, const std::string& mpi_library);
void print_row(const PointRow&);
void print_phases(const Measurement&);    // where the time of a compressed method went
void print_counters(const Measurement&);  // events in a call, with --counters
void print_plan(const Options&, const std::vector<Point>&, const Topology&);  // for a dry run

// Prints "[ 3/12] 1M f32 4 ranks, 40 s left" on a terminal, otherwise nothing.
class Progress {
 public:
  explicit Progress(std::size_t points);
  void show(std::size_t done, const Point& next);
  void clear();

 private:
  std::size_t points_;
  bool terminal_;
  double start_s_;
};

std::string duration(double seconds);  // "3.2 us", "41 ms", "2 min"

}  // namespace mq::bench
