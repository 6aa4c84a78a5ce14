#include "bench/research/simulate/dense.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "bench/research/simulate/model.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq::sim {
namespace {

constexpr int kTag = 1;

// The contents of a message say how many bytes it stands for.
using Length = std::array<std::byte, sizeof(std::uint64_t)>;
std::size_t length_of(std::span<const std::byte> message) {
  std::uint64_t bytes = 0;
  if (message.size() == sizeof bytes) std::memcpy(&bytes, message.data(), sizeof bytes);
  return static_cast<std::size_t>(bytes);
}

// The part of one rank.
class RankReduction {
 public:
  RankReduction(SimComm& comm, std::size_t bytes, const Rates& rates, kernels::Element element)
      : comm_(comm), bytes_(bytes), rates_(rates), element_(element) {}

  Status run(DenseAlgorithm algorithm) {
    if (algorithm == DenseAlgorithm::ring) return ring();
    // Ranks beyond a power of two give their vector to a neighbour, and get the result from it.
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(comm_.size())));
    const int beyond = comm_.size() - core, rank = comm_.rank();
    const bool is_paired = rank < 2 * beyond;
    if (is_paired && rank % 2 == 0) {
      MQ_TRY(exchange(rank + 1, bytes_, kNobody, 0));
      return exchange(kNobody, 0, rank + 1, bytes_);
    }
    if (is_paired) {
      MQ_TRY(exchange(kNobody, 0, rank - 1, bytes_));
      add(bytes_);
    }
    const Core me{is_paired ? rank / 2 : rank - beyond, core, beyond};
    MQ_TRY(algorithm == DenseAlgorithm::recursive_doubling ? recursive_doubling(me) : halving_doubling(me));
    return is_paired ? exchange(rank - 1, bytes_, kNobody, 0) : Status{};
  }

 private:
  struct Core {
    int number, size, beyond;
    int partner(int bit) const {
      const int other = number ^ bit;
      return other < beyond ? 2 * other + 1 : other + beyond;
    }
  };

  Status recursive_doubling(const Core& me) {
    for (int bit = 1; bit < me.size; bit *= 2) {
      MQ_TRY(exchange(me.partner(bit), bytes_, me.partner(bit), bytes_));
      add(bytes_);
    }
    return {};
  }

  Status halving_doubling(const Core& me) {
    std::vector<std::size_t> kept, given;  // bytes of each round
    std::size_t first = 0, parts = static_cast<std::size_t>(me.size);
    for (int bit = 1; bit < me.size; bit *= 2) {
      parts /= 2;
      const std::size_t lower = range(first, first + parts, me.size),
                        upper = range(first + parts, first + 2 * parts, me.size);
      const bool keeps_upper = (me.number & bit) != 0;
      if (keeps_upper) first += parts;
      kept.push_back(keeps_upper ? upper : lower);
      given.push_back(keeps_upper ? lower : upper);
      MQ_TRY(exchange(me.partner(bit), given.back(), me.partner(bit), kept.back()));
      add(kept.back());
    }
    for (int bit = me.size / 2; bit > 0; bit /= 2) {
      MQ_TRY(exchange(me.partner(bit), kept.back(), me.partner(bit), given.back()));
      kept.pop_back();
      given.pop_back();
    }
    return {};
  }

  Status ring() {
    const int p = comm_.size(), rank = comm_.rank();
    const auto piece = [&](int number) {
      const auto i = static_cast<std::size_t>((number % p + p) % p);
      return range(i, i + 1, p);
    };
    for (int round = 0; round < 2 * (p - 1); ++round) {
      const std::size_t in = piece(rank - round - 1);
      MQ_TRY(exchange((rank + 1) % p, piece(rank - round), (rank + p - 1) % p, in));
      if (round < p - 1) add(in);
    }
    return {};
  }

  // The bytes of the parts from first to last, of so many.
  std::size_t range(std::size_t first, std::size_t last, int parts) const {
    const auto all = static_cast<std::size_t>(parts);
    return last * bytes_ / all - first * bytes_ / all;
  }

  // Sends to one rank, receives from another (or kNobody), and waits for both.
  Status exchange(int to, std::size_t out_bytes, int from, std::size_t in_bytes) {
    SimComm::Request sent, received;
    Length out{}, in{};
    const std::uint64_t length = out_bytes;
    std::memcpy(out.data(), &length, sizeof length);
    std::size_t bytes = 0;
    if (from != kNobody) MQ_TRY(comm_.receive(from, kTag, in, received));
    if (to != kNobody) MQ_TRY(comm_.send(to, kTag, out, sent));
    const std::array wanted{from != kNobody ? &received : nullptr, to != kNobody ? &sent : nullptr};
    for (SimComm::Request* const request : wanted)
      for (bool done = request == nullptr; !done;) {
        MQ_TRY(comm_.test(*request, done, bytes));
        if (!done) comm_.idle();
      }
    if (from != kNobody && length_of(in) != in_bytes)
      return {Code::bad_frame, "a message of MPI's reduction has another length than its receiver expects"};
    return {};
  }

  void add(std::size_t bytes) {
    comm_.compute(static_cast<double>(bytes) * rates_.byte_s(raw_codec().name, Work::add, element_, bytes));
  }

  SimComm& comm_;
  std::size_t bytes_;
  const Rates& rates_;
  kernels::Element element_;
};

}  // namespace

SimulatedResult simulate_dense(const SimulatedCall& call, const Network& network, const Rates& rates,
                               DenseAlgorithm algorithm) {
  SimulatedResult result;
  result.ranks.resize(static_cast<std::size_t>(call.ranks));
  std::vector<Status> failed(result.ranks.size());
  std::vector<Counts> before(result.ranks.size());  // of the call that counts
  const std::size_t bytes = call.count * kernels::element_bytes(call.element);
  World world(call.ranks, network, length_of, call.loses);
  result.status = world.run([&](SimComm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (int repeat = 0; repeat < call.repeats && failed[rank].ok(); ++repeat) {
      if (repeat > 0) failed[rank] = barrier(comm);
      before[rank] = world.counts(comm.rank());
      before[rank].end_s = comm.now_s();
      if (failed[rank].ok()) failed[rank] = RankReduction(comm, bytes, rates, call.element).run(algorithm);
    }
  });
  for (int r = 0; r < call.ranks; ++r) {
    const Counts &counts = world.counts(r), &earlier = before[static_cast<std::size_t>(r)];
    SimulatedRank& rank = result.ranks[static_cast<std::size_t>(r)];
    rank.end_s = counts.end_s - earlier.end_s;
    rank.wait_s = counts.wait_s - earlier.wait_s;
    rank.messages = counts.messages - earlier.messages;
    rank.frame_bytes = counts.bytes - earlier.bytes;
    if (result.status.ok()) result.status = failed[static_cast<std::size_t>(r)];
  }
  result.events = world.events();
  result.leaked = world.leaked();
  return result;
}

DenseResult simulate_dense(const SimulatedCall& call, const Network& network, const Rates& rates) {
  constexpr double kWorthTrying = 2;
  const auto bytes = static_cast<double>(call.count * kernels::element_bytes(call.element));
  const std::array<Cost, kDenseNames.size()> costs =
      dense_costs(bytes, call.ranks, prices_of(call, network, rates));
  const double least = std::min_element(costs.begin(), costs.end(), [](const Cost& a, const Cost& b) {
                         return a.seconds < b.seconds;
                       })->seconds;
  DenseResult best;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].seconds > kWorthTrying * least) continue;
    SimulatedResult found = simulate_dense(call, network, rates, static_cast<DenseAlgorithm>(i));
    if (best.algorithm.empty() || !found.status.ok() || found.last().end_s < best.simulated.last().end_s)
      best = {std::move(found), kDenseNames[i]};
    if (!best.simulated.status.ok()) break;
  }
  return best;
}

}  // namespace mq::sim
