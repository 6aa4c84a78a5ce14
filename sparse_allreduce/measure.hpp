// Measures the network and the processor, once for each communicator, so that sparse reductions can choose an
// algorithm. The link meter uses the same kind of messages as everything else here, so calls in flight make
// progress meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "mpi_quant/base/link_meter.hpp"
#include "sparse_allreduce/frame.hpp"
#include "sparse_allreduce/merge.hpp"
#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

namespace detail {

// Seconds per entry to encode a list, to decode one, and to merge two. Throws std::bad_alloc.
inline std::array<double, 3> list_costs(Workspace& memory) {
  constexpr std::size_t kEntries = std::size_t{1} << 17;  // of each list: larger than the nearer caches
  const Entry entry;
  const std::span<std::uint64_t> indices = memory.take<std::uint64_t>(2 * kEntries);
  const std::span<std::uint64_t> merged = memory.take<std::uint64_t>(2 * kEntries);
  const std::span<float> values = memory.take<float>(2 * kEntries), sums = memory.take<float>(2 * kEntries);
  const std::span<std::byte> wire = memory.take<std::byte>(frame_room(entry, kEntries));
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < 2 * kEntries; ++i) {
    if (i == kEntries) at = 0;
    indices[i] = at += 1 + (i * 0x9e3779b97f4a7c15u >> 60);  // gaps without a pattern
    values[i] = 1;
  }
  const Range range{0, at + 1 + 16 * kEntries};
  const List lists[] = {{indices.first(kEntries), reinterpret_cast<const std::byte*>(values.data())},
                        {indices.last(kEntries), reinterpret_cast<const std::byte*>(&values[kEntries])}};
  const Operand operands[] = {lists[0], lists[1]};
  std::array<double, 3> least{1, 1, 1};
  for (int i = 0; i < 3; ++i) {
    Header header;
    std::array<double, 4> time{now_s()};
    write_frame(entry, lists[0], range, memory, wire.data(), header);
    time[1] = now_s();
    (void)read_frame(header, wire.first(header.payload_bytes), entry, range, 0, memory,
                     merged.first(kEntries));
    time[2] = now_s();
    std::size_t n = kEntries;
    (void)merge(entry, operands, range.low, range.high, memory, merged.data(),
                reinterpret_cast<std::byte*>(sums.data()), n, MergeBy::lists);
    time[3] = now_s();
    for (std::size_t k = 0; k < 3; ++k)
      least[k] = std::min(least[k], (time[k + 1] - time[k]) / static_cast<double>(k == 2 ? n : kEntries));
  }
  return least;
}

}  // namespace detail

// Amount of memory that measure_network takes.
inline constexpr std::size_t kMeasureBytes = std::size_t{12} << 20;

// Collective; all ranks get the numbers of the slowest rank. Uses `tag`. dense_allreduce(void* f32, count)
// returns a Status; it is the reduction that dense vectors use. Throws std::bad_alloc, possibly on one rank
// only.
template <Comm C, class Dense>
Status measure_network(C& comm, int tag, const Deadline& deadline, Workspace& memory, Traffic& traffic,
                       const Dense& dense_allreduce, Network& network) {
  constexpr std::size_t kLarge = std::size_t{1} << 18;
  LinkModel link;
  MQ_TRY(LinkMeter<C>(comm, tag, deadline, traffic, memory.take<std::byte>(kLinkMemory)).measure(link));
  std::array<double, 4> seconds{};  // the dense reduction, and list_costs
  const std::span<float> vector = memory.take<float>(kLarge / sizeof(float));
  std::fill(vector.begin(), vector.end(), 0.0f);
  for (int i = 0; i < 2; ++i) {  // the first run opens connections
    const double start = now_s();
    MQ_TRY(dense_allreduce(vector.data(), vector.size()));
    seconds[0] = now_s() - start;
  }
  const std::array<double, 3> costs = detail::list_costs(memory);
  std::copy(costs.begin(), costs.end(), seconds.begin() + 1);
  Exchange<C> exchange(comm, deadline, traffic);
  MQ_TRY(max_over_ranks(exchange, tag, seconds, memory.take<std::byte>(2 * sizeof seconds)));
  const auto per_byte = [](double more_s, double all_s) { return std::max(more_s, 1e-3 * all_s) / kLarge; };
  network.latency_s = std::max(link.alpha_s(), 1e-8);
  network.further_s =
      std::clamp((link.burst_s(kLinkBurst) - link.alpha_s()) / (kLinkBurst - 1), 1e-9, network.latency_s);
  network.s_per_byte = per_byte(link.beta_s * kLarge, std::max(link.seconds(kLarge), 1e-8));
  network.encode_s_per_entry = seconds[1];
  network.decode_s_per_entry = seconds[2];
  network.s_per_entry = seconds[3];
  network.dense_s_per_byte = per_byte(seconds[0] - link.alpha_s(), seconds[0]);
  return {};
}

}  // namespace mq::sparse
