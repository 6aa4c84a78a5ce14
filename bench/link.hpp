// mpiq-bench link: the exchanges of the link meter (base/link_meter.hpp), measured as reductions are, and the
// network that explains them. mpiq-simulate runs on that network. The meter takes some 20 ms in a user's
// program; this one takes as long as its intervals need, and keeps every repetition.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "bench/options.hpp"
#include "bench/workload.hpp"
#include "mpi_quant/base/link_meter.hpp"

namespace mq::bench {

// The methods of such a sweep: one message each way, and a burst of them. Each rank has the partner half of
// the ranks away.
std::vector<MethodWord> link_methods();
std::unique_ptr<Collective> make_link_collective(const Options& options);

// Of a network, in the words of `mpiq-simulate --link`.
struct MeasuredLink {
  double latency_s = 0, overhead_s = 0, bandwidth_Bps = 0;
};
// singles: exchanges of one message each way, of at least two sizes. bursts: the same of kLinkBurst messages
// of so many bytes. Those between the shortest and the longest do not count: a link may let short messages
// pass faster than its bandwidth. The shortest single message tells latency and overheads together, and the
// shortest burst tells them apart. The longest burst tells the bandwidth: of the port, or of the
// processors that copy, whichever is less. On a link without a rate limit copying sets it.
MeasuredLink link_of(std::span<const LinkPoint> singles, std::span<const LinkPoint> bursts);
std::string to_string(const MeasuredLink& link);  // such as "5us/10us/117.5MB"
// What a whole sweep says, a line for each number of ranks. find(point, method): the row, or null.
std::string link_text(std::span<const Point> points,
                      const std::function<const PointRow*(const Point&, const MethodWord&)>& find);

}  // namespace mq::bench
