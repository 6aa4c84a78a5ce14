// Measures what messages between the ranks of a communicator cost, as a LinkModel. Advice and sparse
// reductions measure with it in a user's program. `mpiq-bench link` makes the same exchanges, for as long as
// its intervals need.
//
// All ranks exchange messages at the same time, as in a reduction: each sends to the rank `distance` above
// it, and receives from the rank as far below. Two distances are measured: 1, and half the ranks, which is
// another node where ranks are placed node by node. Each rank measures intervals on its own clock, and the
// median of several exchanges counts; so no clocks are compared. The slowest distance and rank count.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "mpi_quant/base/exchange.hpp"
#include "mpi_quant/base/link.hpp"

namespace mq {

inline constexpr int kLinkBurst = 16;  // messages each way, enough to see overheads beside a latency
// Of one message. 256 KiB is a chunk of an allreduce as bf16; longer messages leave the caches.
inline constexpr std::array<std::size_t, 3> kLinkBytes{64, std::size_t{16} << 10, std::size_t{256} << 10};
inline constexpr std::size_t kLinkMemory = 2 * kLinkBytes.back() + 4 * sizeof(double);

// One exchange: sends each of `messages` equal parts of `out` to the rank `distance` above this one, and
// receives as many from the rank as far below.
template <Comm C>
Status exchange_with(Exchange<C>& exchange, int distance, int tag, std::span<const std::byte> out,
                     std::span<std::byte> in, int messages) {
  const int rank = exchange.comm().rank(), size = exchange.comm().size();
  const std::size_t bytes = out.size() / static_cast<std::size_t>(messages);
  for (std::size_t at = 0; at < out.size(); at += bytes)
    MQ_TRY(exchange.receive((rank - distance + size) % size, tag, in.subspan(at, bytes)));
  for (std::size_t at = 0; at < out.size(); at += bytes)
    MQ_TRY(exchange.send((rank + distance) % size, tag, out.subspan(at, bytes)));
  return exchange.wait();
}

template <Comm C>
class LinkMeter {
 public:
  // memory: kLinkMemory bytes, which belong to the communication after an error. May throw std::bad_alloc;
  // measure() does not.
  LinkMeter(C& comm, int tag, const Deadline& deadline, Traffic& traffic, std::span<std::byte> memory)
      : comm_(comm),
        exchange_(comm, deadline, traffic),
        tag_(tag),
        out_(memory.first(kLinkBytes.back())),
        in_(memory.subspan(kLinkBytes.back(), kLinkBytes.back())),
        numbers_(memory.subspan(2 * kLinkBytes.back())) {
    std::fill(out_.begin(), out_.end(), std::byte{});
    exchange_.make_room(std::size_t{2} * kLinkBurst);
  }

  // Collective: all ranks get the same model. The communicator has at least two ranks. Takes about 20 ms;
  // longer where few exchanges take as long, because the network is slow or ranks wait for a processor.
  Status measure(LinkModel& link) {
    left_s_ = kBudget_s;
    std::array<LinkPoint, kLinkBytes.size()> points;
    std::size_t n = 0;
    for (const std::size_t bytes : kLinkBytes) {
      const auto length = static_cast<double>(bytes);
      const double expected_s = n < 2 ? 0 : distances() * fit(std::span(points).first(n)).seconds(length);
      if (expected_s > left_s_) break;
      const double parts = static_cast<double>(kLinkBytes.size() - n) + 1;  // with the burst
      points[n].bytes = length;
      MQ_TRY(measure_one(bytes, 1, left_s_ / parts, expected_s, points[n].seconds));
      ++n;
    }
    double burst_s = 0;
    MQ_TRY(measure_one(kLinkBytes[0], kLinkBurst, left_s_, 0, burst_s));
    link = split(fit(std::span(points).first(n)), kLinkBurst, burst_s);
    return {};
  }

 private:
  // The median of five is right although the first exchange opens connections and another one is disturbed.
  static constexpr int kEnough = 5, kLeast = 3, kMost = 25;
  static constexpr double kBudget_s = 0.02;
  int distances() const { return comm_.size() < 4 ? 1 : 2; }

  // A communication in virtual time (the simulator) has its own clock.
  double now() const {
    if constexpr (requires { comm_.now_s(); })
      return comm_.now_s();
    else
      return now_s();
  }

  // The seconds of an exchange. All ranks repeat it equally often, for about share_s. expected_s: what one
  // exchange at each distance takes, as far as it is known.
  Status measure_one(std::size_t bytes, int messages, double share_s, double expected_s, double& seconds) {
    const auto fitting = [](double room_s, double one_s, int least, int most) {
      return static_cast<int>(std::clamp(room_s / std::max(one_s, 1e-9), 1.0 * least, 1.0 * most));
    };
    double spent_s = 0;
    taken_ = 0;
    const int first = expected_s > 0 ? fitting(share_s, expected_s, 1, kEnough)
                      : left_s_ > 0  ? kEnough
                                     : kLeast;
    MQ_TRY(repeat(bytes, messages, first, seconds, spent_s));
    const int more = fitting(share_s - spent_s, spent_s / first, 0, kMost - first);
    if (more > 0) MQ_TRY(repeat(bytes, messages, more, seconds, spent_s));
    left_s_ -= spent_s;
    return {};
  }

  // Repeats an exchange at each distance. seconds: the median of all repetitions since taken_ was 0, of the
  // slowest distance and rank. Adds the time that this took to spent_s.
  Status repeat(std::size_t bytes, int messages, int repetitions, double& seconds, double& spent_s) {
    const std::size_t all = bytes * static_cast<std::size_t>(messages), taken = taken_;
    taken_ += static_cast<std::size_t>(repetitions);
    const double start = now();
    double slowest_s = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(distances()); ++d) {
      auto& times = times_[d];
      for (std::size_t i = taken; i < taken_; ++i) {
        const double before = now();
        MQ_TRY(exchange_with(exchange_, d == 0 ? 1 : comm_.size() / 2, tag_, out_.first(all), in_, messages));
        times[i] = now() - before;
      }
      std::array<double, kMost> sorted = times;
      const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(taken_ / 2);
      std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(taken_));
      slowest_s = std::max(slowest_s, *middle);
    }
    std::array<double, 2> numbers{slowest_s, now() - start};
    MQ_TRY(max_over_ranks(exchange_, tag_, numbers, numbers_));
    seconds = numbers[0];
    spent_s += numbers[1];
    return {};
  }

  C& comm_;
  Exchange<C> exchange_;
  int tag_;
  std::span<std::byte> out_, in_, numbers_;
  std::array<std::array<double, kMost>, 2> times_{};  // of each distance
  std::size_t taken_ = 0;                             // of them
  double left_s_ = 0;                                 // of the budget
};

}  // namespace mq
