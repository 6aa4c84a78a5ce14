#include "bench/research/simulate/dense.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "bench/parts.hpp"
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

constexpr std::string_view kDoubling =
                               kDenseNames[static_cast<std::size_t>(DenseAlgorithm::recursive_doubling)],
                           kRing = kDenseNames[static_cast<std::size_t>(DenseAlgorithm::ring)],
                           kHalving = "recursive_halving", kBruck = "bruck", kBinomial = "binomial",
                           kHalvingGather = "halving_gather";
// A broadcast by a scatter: the root sends each rank its part down a tree, and an allgather follows.
constexpr std::string_view kScatter = "scatter_", kScatterDoubling = "scatter_recursive_doubling",
                           kScatterBruck = "scatter_bruck", kScatterRing = "scatter_ring";

// What one rank does.
class DenseRank {
 public:
  DenseRank(SimComm& comm, const SimulatedCall& call, const Rates& rates)
      : comm_(comm), call_(call), bytes_(call.count * width()), rates_(rates) {}

  Status run(std::string_view algorithm) {
    const int p = comm_.size();
    const bool adds_up = adds(call_.collective);
    if (algorithm == kBinomial) return adds_up ? up_a_tree() : down_a_tree();
    if (algorithm.starts_with(kScatter)) {
      MQ_TRY(scatter());
      algorithm.remove_prefix(kScatter.size());
    }
    if (algorithm == kRing) {
      const bool gathers = call_.collective != Collective::reduce_scatter;
      return ring(adds_up ? 0 : p - 1, gathers ? 2 * (p - 1) : p - 1);
    }
    if (algorithm == kBruck) return bruck();
    // Ranks beyond a power of two give their vector to a neighbour, and get the result from it.
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(p)));
    const int beyond = p - core, rank = comm_.rank();
    const bool is_paired = rank < 2 * beyond;
    const bool to_root = algorithm == kHalvingGather;
    // In a reduction to a root, the first rank of each pair stays, because the root is rank 0.
    const int staying = to_root ? 0 : 1, other = rank ^ 1;
    const std::size_t result = to_root                                     ? 0
                               : call_.collective == Collective::allreduce ? bytes_
                                                                           : part(rank & ~1);
    if (is_paired && rank % 2 != staying) {
      MQ_TRY(exchange(other, bytes_, kNobody, 0));
      return to_root ? Status{} : exchange(kNobody, 0, other, result);
    }
    if (is_paired) {
      MQ_TRY(exchange(kNobody, 0, other, bytes_));
      add(bytes_);
    }
    const Core me{is_paired ? rank / 2 : rank - beyond, core, beyond, staying};
    MQ_TRY(run(algorithm, me));
    return is_paired && !to_root ? exchange(other, result, kNobody, 0) : Status{};
  }

 private:
  struct Core {
    int number, size, beyond, staying;
    int partner(int bit) const {
      const int other = number ^ bit;
      return other < beyond ? 2 * other + staying : other + beyond;
    }
    // The first part of the vector that belongs to a rank of the core, or to a neighbour that it stands for.
    int first_part(int other) const { return other < beyond ? 2 * other : other + beyond; }
  };

  Status run(std::string_view algorithm, const Core& me) {
    if (algorithm == kHalving) return halving(me);
    if (algorithm == kHalvingGather) return halving_doubling(me, true);
    if (algorithm != kDoubling) return halving_doubling(me, false);
    return adds(call_.collective) ? recursive_doubling(me) : doubling(me);
  }

  Status recursive_doubling(const Core& me) {
    for (int bit = 1; bit < me.size; bit *= 2) {
      MQ_TRY(exchange(me.partner(bit), bytes_, me.partner(bit), bytes_));
      add(bytes_);
    }
    return {};
  }

  // to_root: the second half brings the parts to the first rank of the core only.
  Status halving_doubling(const Core& me, bool to_root) {
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
      const bool is_over = to_root && (me.number & bit) != 0;
      MQ_TRY(exchange(to_root && !is_over ? kNobody : me.partner(bit), kept.back(),
                      is_over ? kNobody : me.partner(bit), given.back()));
      if (is_over) break;
      kept.pop_back();
      given.pop_back();
    }
    return {};
  }

  // The ranks whose numbers a rank's has as its upper bits, itself included: what hangs below it in a
  // binomial tree whose root is rank 0.
  int below() const {
    const int rank = comm_.rank(), p = comm_.size();
    const int most = rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(p))) : rank & -rank;
    return std::min(most, p - rank);
  }
  int parent() const { return comm_.rank() & (comm_.rank() - 1); }
  // Calls f for each child, the one with the most ranks below it first or last.
  template <class F>
  Status for_each_child(bool most_first, const F& f) {
    std::vector<int> hops;
    for (int hop = 1; hop < below(); hop *= 2) hops.push_back(hop);
    if (most_first) std::reverse(hops.begin(), hops.end());
    for (const int hop : hops) MQ_TRY(f(comm_.rank() + hop, hop));
    return {};
  }

  Status down_a_tree() {
    if (comm_.rank() != 0) MQ_TRY(exchange(kNobody, 0, parent(), bytes_));
    return for_each_child(true, [&](int child, int) { return exchange(child, bytes_, kNobody, 0); });
  }

  Status up_a_tree() {
    MQ_TRY(for_each_child(false, [&](int child, int) {
      MQ_TRY(exchange(kNobody, 0, child, bytes_));
      add(bytes_);
      return Status{};
    }));
    return comm_.rank() != 0 ? exchange(parent(), bytes_, kNobody, 0) : Status{};
  }

  // Each rank gets the parts of the ranks below it.
  Status scatter() {
    const auto parts = [&](int first, int n) {
      std::size_t bytes = 0;
      for (int r = first; r < std::min(first + n, comm_.size()); ++r) bytes += part(r);
      return bytes;
    };
    if (comm_.rank() != 0) MQ_TRY(exchange(kNobody, 0, parent(), parts(comm_.rank(), below())));
    return for_each_child(true,
                          [&](int child, int hop) { return exchange(child, parts(child, hop), kNobody, 0); });
  }

  // A reduce-scatter. In the end a rank of the core has its own part and the part of its neighbour.
  Status halving(const Core& me) {
    int first = 0;
    for (int bit = me.size / 2; bit > 0; bit /= 2) {
      const std::size_t lower = parts_of(me, first, first + bit),
                        upper = parts_of(me, first + bit, first + 2 * bit);
      const bool keeps_upper = (me.number & bit) != 0;
      if (keeps_upper) first += bit;
      const std::size_t kept = keeps_upper ? upper : lower, given = keeps_upper ? lower : upper;
      MQ_TRY(exchange(me.partner(bit), given, me.partner(bit), kept));
      add(kept);
    }
    return {};
  }

  // Of an allgather among a power of two of ranks.
  Status doubling(const Core& me) {
    for (int bit = 1; bit < me.size; bit *= 2) {
      const int mine = me.number & ~(bit - 1), other = mine ^ bit;
      MQ_TRY(exchange(me.partner(bit), parts_of(me, mine, mine + bit), me.partner(bit),
                      parts_of(me, other, other + bit)));
    }
    return {};
  }

  // An allgather: a rank has its own part and the parts of some ranks behind it. In each step it gets as many
  // parts, which follow them.
  Status bruck() {
    const int p = comm_.size(), rank = comm_.rank();
    for (int hop = 1; hop < p; hop *= 2) {
      const int n = std::min(hop, p - hop);
      std::size_t out = 0, in = 0;
      for (int i = 0; i < n; ++i) {
        out += part(rank + i);
        in += part(rank + hop + i);
      }
      MQ_TRY(exchange((rank + p - hop) % p, out, (rank + hop) % p, in));
    }
    return {};
  }

  // Rounds of the ring of an allreduce: the first P-1 are a reduce-scatter, the others an allgather.
  Status ring(int round, int end) {
    const int p = comm_.size(), rank = comm_.rank();
    const int shift = call_.collective == Collective::allreduce ? 0 : 1;  // part p belongs to rank p
    for (; round < end; ++round) {
      const int out = rank - round - shift;
      MQ_TRY(exchange((rank + 1) % p, part(out), (rank + p - 1) % p, part(out - 1)));
      if (round < p - 1) add(part(out - 1));
    }
    return {};
  }

  // The bytes of the parts from first to last, of so many.
  std::size_t range(std::size_t first, std::size_t last, int parts) const {
    const auto all = static_cast<std::size_t>(parts);
    return last * bytes_ / all - first * bytes_ / all;
  }
  // The bytes of a rank's part; ranks are counted modulo their number.
  std::size_t part(int rank) const {
    const int p = comm_.size(), r = (rank % p + p) % p;
    const auto i = static_cast<std::size_t>(r);
    if (call_.collective == Collective::allreduce) return range(i, i + 1, p);
    return bench::part_of(call_.count, p, r).count * width();
  }
  // The bytes of the parts that belong to ranks of the core.
  std::size_t parts_of(const Core& core, int first, int last) const {
    const auto begin = [&](int number) {
      return bench::part_of(call_.count, comm_.size(), core.first_part(number)).begin * width();
    };
    return begin(last) - begin(first);
  }
  std::size_t width() const { return kernels::element_bytes(call_.element); }

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
    comm_.compute(static_cast<double>(bytes) *
                  rates_.byte_s(raw_codec().name, Work::add, call_.element, bytes));
  }

  SimComm& comm_;
  const SimulatedCall& call_;
  std::size_t bytes_;
  const Rates& rates_;
};

// What each of dense_algorithms() takes: its messages one after the other, without additions.
std::vector<double> rough_times(const SimulatedCall& call, const Prices& prices) {
  const double bytes = static_cast<double>(call.count * kernels::element_bytes(call.element)), p = call.ranks;
  std::vector<double> seconds;
  if (call.collective == Collective::allreduce) {
    for (const Cost& cost : dense_costs(bytes, call.ranks, prices)) seconds.push_back(cost.seconds);
    return seconds;
  }
  const double byte_s = std::max(prices[Term::byte], 2 * prices[Term::copy]);
  const bool is_power = std::has_single_bit(static_cast<unsigned>(call.ranks));
  for (const std::string_view name : dense_algorithms(call.collective, call.ranks)) {
    const double doublings = std::bit_width(static_cast<unsigned>(call.ranks - 1));
    double rounds = name == kRing || name == kScatterRing ? p - 1 : doublings;
    double sent = (p - 1) / p * bytes;
    if (name == kBinomial) sent = doublings * bytes;
    if (name.starts_with(kScatter) || name == kHalvingGather) rounds += doublings, sent *= 2;
    if ((name == kHalving || name == kHalvingGather) && !is_power) rounds += 1, sent += bytes;
    seconds.push_back(rounds * (prices[Term::latency] + 2 * prices[Term::overhead]) + sent * byte_s);
  }
  return seconds;
}

}  // namespace

std::vector<std::string_view> dense_algorithms(Collective collective, int ranks) {
  const bool is_power = std::has_single_bit(static_cast<unsigned>(ranks));
  if (collective == Collective::reduce_scatter) return {kHalving, kRing};
  if (collective == Collective::allgather && is_power) return {kDoubling, kBruck, kRing};
  if (collective == Collective::allgather) return {kBruck, kRing};
  if (collective == Collective::bcast)
    return {kBinomial, is_power ? kScatterDoubling : kScatterBruck, kScatterRing};
  if (collective == Collective::reduce) return {kBinomial, kHalvingGather};
  return {kDenseNames.begin(), kDenseNames.end()};
}

SimulatedResult simulate_dense(const SimulatedCall& call, const Network& network, const Rates& rates,
                               std::string_view algorithm) {
  SimulatedResult result;
  result.ranks.resize(static_cast<std::size_t>(call.ranks));
  std::vector<Status> failed(result.ranks.size());
  std::vector<Counts> before(result.ranks.size());  // of the call that counts
  World world(call.ranks, network, length_of, call.loses);
  result.status = world.run([&](SimComm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (int repeat = 0; repeat < call.repeats && failed[rank].ok(); ++repeat) {
      if (repeat > 0) failed[rank] = barrier(comm);
      before[rank] = world.counts(comm.rank());
      before[rank].end_s = comm.now_s();
      if (failed[rank].ok()) failed[rank] = DenseRank(comm, call, rates).run(algorithm);
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
  // A rough time is off by far less than this, where ports have no bursts.
  constexpr double kSurelySlower = 1.25;
  const std::vector<std::string_view> names = dense_algorithms(call.collective, call.ranks);
  const std::vector<double> seconds = rough_times(call, prices_of(call, network, rates));
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  DenseResult best;
  for (const std::size_t i : order) {
    if (seconds[i] > kWorthTrying * seconds[order.front()]) break;
    // A ring of many ranks has so many messages that its simulation takes minutes.
    if (!best.algorithm.empty() && network.burst_bytes == 0 &&
        seconds[i] > kSurelySlower * best.simulated.last().end_s)
      break;
    SimulatedResult found = simulate_dense(call, network, rates, names[i]);
    if (best.algorithm.empty() || !found.status.ok() || found.last().end_s < best.simulated.last().end_s)
      best = {std::move(found), names[i]};
    if (!best.simulated.status.ok()) break;
  }
  return best;
}

}  // namespace mq::sim
