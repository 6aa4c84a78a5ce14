// What mpiq-bench link says of messages whose times are known.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench/link.hpp"

namespace mq::bench {
namespace {

// Latency, overhead, seconds a byte of a port, copying a byte: as in bench/research/simulate/network.hpp.
struct Truth {
  double latency_s, overhead_s, port_s, copy_s;
  // The port or the processor is the slower one.
  double byte_s() const { return std::max(port_s, 2 * copy_s); }
  double single_s(double n) const { return 2 * overhead_s + latency_s + byte_s() * n; }
  double burst_s(double n) const {
    return std::max(single_s(n) + (kLinkBurst - 1) * byte_s() * n,
                    2 * kLinkBurst * overhead_s + byte_s() * n);
  }
};

MeasuredLink measured(const Truth& truth) {
  std::vector<LinkPoint> singles, bursts;
  for (const double n : {64.0, 1024.0, 8192.0, 65536.0, 1048576.0}) {
    singles.push_back({n, truth.single_s(n)});
    bursts.push_back({n, truth.burst_s(n)});
  }
  std::swap(singles[0], singles[3]);  // points come in random order
  std::swap(bursts[1], bursts[4]);
  return link_of(singles, bursts);
}

TEST(Link, its_three_numbers_are_told_apart) {
  for (const Truth& truth : {Truth{20e-6, 3e-6, 1 / 1.25e9, 0},
                             {5e-6, 10e-6, 1 / 117.5e6, 1 / 4e9},
                             {2e-6, 0.3e-6, 1 / 12.5e9, 1 / 5e9}}) {
    const MeasuredLink link = measured(truth);
    EXPECT_NEAR(link.latency_s + 2 * link.overhead_s, truth.latency_s + 2 * truth.overhead_s,
                0.05 * truth.latency_s);
    EXPECT_NEAR(link.overhead_s, truth.overhead_s, 0.1 * truth.overhead_s);  // a short burst has bytes, too
    EXPECT_NEAR(link.bandwidth_Bps, 1 / truth.byte_s(), 0.01 / truth.byte_s());
  }
}

TEST(Link, the_longest_burst_tells_the_bandwidth) {
  const std::vector<LinkPoint> singles{{64, 10e-6}, {1e6, 1010e-6}},
      bursts{{64, 60e-6}, {1e6, 1010e-6 + 15 * 1250e-6}};
  const MeasuredLink link = link_of(singles, bursts);
  EXPECT_NEAR(link.bandwidth_Bps, 0.8e9, 1e6);
  EXPECT_EQ(to_string({5e-6, 10e-6, 117.5e6}), "5us/10us/117.5MB");
}

TEST(Link, a_sweep_says_one_line_for_each_number_of_ranks) {
  const Truth truth{20e-6, 3e-6, 1 / 1.25e9, 0};
  std::vector<Point> points;
  std::map<std::pair<std::uint64_t, std::string>, PointRow> rows;
  for (const int ranks : {2, 4})
    for (const std::uint64_t count : {16u, 65536u}) {
      points.push_back({kernels::Element::f32, ranks, count, ""});
      points.back().methods = link_methods();
    }
  for (const Point& p : points) {
    const auto n = static_cast<double>(p.bytes());
    for (const auto& [word, seconds] :
         {std::pair{"mpi/single", truth.single_s(n)}, {"mpi/burst", truth.burst_s(n)}}) {
      PointRow& row = rows[{p.count, word}];
      row.status = "ok";
      row.t_median_s = seconds;
    }
  }
  const auto find = [&](const Point& p, const MethodWord& m) -> const PointRow* {
    return p.ranks == 2 || m.algorithm == "single" ? &rows.at({p.count, m.text}) : nullptr;
  };
  const std::string text = link_text(points, find);
  EXPECT_EQ(text, "# the link of 2 ranks, for mpiq-simulate --link:\n" + to_string(measured(truth)) + "\n");
}

}  // namespace
}  // namespace mq::bench
