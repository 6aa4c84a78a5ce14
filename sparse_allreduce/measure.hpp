// Measures the network, in a few milliseconds, so that sparse reductions can choose an algorithm. (The
// advisor's link_mpi.hpp measures it thoroughly.) The measurement uses the same kind of messages as
// everything else here, so calls in flight make progress meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "sparse_allreduce/exchange.hpp"
#include "sparse_allreduce/frame.hpp"
#include "sparse_allreduce/merge.hpp"
#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

// Replaces each value by its maximum over all ranks. Dissemination: ceil(log2 P) messages.
template <Comm C, std::size_t N>
Status max_over_ranks(C& comm, int tag, const Deadline& deadline, Workspace& memory, Traffic& traffic,
                      std::array<double, N>& values) {
  const int p = comm.size();
  for (int distance = 1; distance < p; distance *= 2) {
    // After an error these buffers belong to the communication, like the whole workspace.
    const std::span<double> received = memory.take<double>(N), sent = memory.take<double>(N);
    std::copy(values.begin(), values.end(), sent.begin());
    Exchange<C> exchange(comm, deadline, traffic);
    MQ_TRY(exchange.receive((comm.rank() - distance + p) % p, tag, std::as_writable_bytes(received)));
    MQ_TRY(exchange.send((comm.rank() + distance) % p, tag, std::as_bytes(sent)));
    MQ_TRY(exchange.wait());
    for (std::size_t i = 0; i < N; ++i) values[i] = std::max(values[i], received[i]);
  }
  return {};
}

namespace detail {

// Time of one exchange with both neighbours on the ring, in seconds: the median of several. All ranks
// exchange at the same time, as in a reduction. An exchange is `messages` of them each way; `in` has room for
// all.
template <Comm C>
Status neighbours(C& comm, int tag, const Deadline& deadline, Traffic& traffic, std::span<std::byte> out,
                  std::span<std::byte> in, int messages, double& seconds) {
  constexpr std::size_t kTimes = 5;
  std::array<double, kTimes> times{};
  const int p = comm.size();
  for (double& t : times) {
    const double start = clock_s();
    Exchange<C> exchange(comm, deadline, traffic);
    exchange.make_room(2 * static_cast<std::size_t>(messages));
    for (int i = 0; i < messages; ++i)
      MQ_TRY(exchange.receive((comm.rank() - 1 + p) % p, tag,
                              in.subspan(static_cast<std::size_t>(i) * out.size(), out.size())));
    for (int i = 0; i < messages; ++i) MQ_TRY(exchange.send((comm.rank() + 1) % p, tag, out));
    MQ_TRY(exchange.wait());
    t = clock_s() - start;
  }
  std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
  seconds = times[kTimes / 2];
  return {};
}

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
    std::array<double, 4> time{clock_s()};
    write_frame(entry, lists[0], range, memory, wire.data(), header);
    time[1] = clock_s();
    (void)read_frame(header, wire.first(header.payload_bytes), entry, range, 0, memory,
                     merged.first(kEntries));
    time[2] = clock_s();
    std::size_t n = kEntries;
    (void)merge(entry, operands, range.low, range.high, memory, merged.data(),
                reinterpret_cast<std::byte*>(sums.data()), n, MergeBy::lists);
    time[3] = clock_s();
    for (std::size_t k = 0; k < 3; ++k)
      least[k] = std::min(least[k], (time[k + 1] - time[k]) / static_cast<double>(k == 2 ? n : kEntries));
  }
  return least;
}

}  // namespace detail

// Amount of memory that measure_network takes.
inline constexpr std::size_t kMeasureBytes = std::size_t{12} << 20;

// Collective; all ranks get the same numbers, those of the slowest rank. Uses `tag`. dense_allreduce(void*
// f32, count) returns a Status; it is the reduction that dense vectors use. Throws std::bad_alloc, possibly
// on one rank only.
template <Comm C, class Dense>
Status measure_network(C& comm, int tag, const Deadline& deadline, Workspace& memory, Traffic& traffic,
                       const Dense& dense_allreduce, Network& network) {
  constexpr std::size_t kSmall = 8, kLarge = std::size_t{1} << 18;
  constexpr int kBurst = 8;
  const std::span<std::byte> out = memory.take<std::byte>(kLarge), in = memory.take<std::byte>(kLarge);
  std::memset(out.data(), 0, out.size());
  std::array<double, 7> seconds{};
  const auto measure = [&](std::size_t bytes, int messages, double& into) {
    return detail::neighbours(comm, tag, deadline, traffic, out.first(bytes), in, messages, into);
  };
  MQ_TRY(measure(kSmall, 1, seconds[0]));
  MQ_TRY(measure(kLarge, 1, seconds[1]));
  MQ_TRY(measure(kSmall, kBurst, seconds[6]));
  for (int i = 0; i < 2; ++i) {  // the first run opens connections
    const double start = clock_s();
    MQ_TRY(dense_allreduce(out.data(), kLarge / sizeof(float)));
    seconds[2] = clock_s() - start;
  }
  const std::array<double, 3> costs = detail::list_costs(memory);
  std::copy(costs.begin(), costs.end(), seconds.begin() + 3);
  MQ_TRY(max_over_ranks(comm, tag, deadline, memory, traffic, seconds));
  network.latency_s = std::max(seconds[0], 1e-8);
  network.further_s = std::clamp((seconds[6] - seconds[0]) / (kBurst - 1), 1e-9, network.latency_s);
  network.s_per_byte = std::max(seconds[1] - seconds[0], 1e-3 * seconds[1]) / kLarge;
  network.encode_s_per_entry = seconds[3];
  network.decode_s_per_entry = seconds[4];
  network.s_per_entry = seconds[5];
  network.dense_s_per_byte = std::max(seconds[2] - seconds[0], 1e-3 * seconds[2]) / kLarge;
  return {};
}

}  // namespace mq::sparse
