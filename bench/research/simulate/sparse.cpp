#include "bench/research/simulate/sparse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <new>

#include "mpi_quant/engine/agree.hpp"
#include "sparse_allreduce/kylix.hpp"
#include "sparse_allreduce/measure.hpp"
#include "sparse_allreduce/union.hpp"

namespace mq::sim {
namespace {

using Kind = SparseReduction::Kind;
constexpr int kSparseTag = 8, kAgreementTag = 1;
constexpr std::uint64_t kCall = 1;

class ListComm final : public SimComm {
 public:
  ListComm(const SimComm& comm, const ListCosts& costs) : SimComm(comm), costs_(costs) {}
  void worked(sparse::Work work, std::size_t entries) {
    compute(costs_[static_cast<std::size_t>(work)] * static_cast<double>(entries));
  }

 private:
  ListCosts costs_;
};
static_assert(Comm<ListComm>);

// As sparse::measure_network would measure it, with exchanges of all ranks at once.
sparse::Network network_of(const Network& network, const ListCosts& costs) {
  sparse::Network n;
  n.latency_s = network.latency_s + 2 * network.overhead_s;
  n.further_s = std::max(2 * network.overhead_s, network.gap_s);
  n.s_per_byte = std::max(1 / network.bandwidth_Bps, 2 * network.copy_s);
  n.encode_s_per_entry = costs[static_cast<std::size_t>(sparse::Work::encode)];
  n.decode_s_per_entry = costs[static_cast<std::size_t>(sparse::Work::decode)];
  n.s_per_entry = costs[static_cast<std::size_t>(sparse::Work::merge)];
  n.dense_s_per_byte = 1;  // there is no MPI here to leave a union to
  return n;
}

// Every rank brings 1 at each of its indices. So a sum is the number of ranks that have the index.
template <class T>
class Ranks {
 public:
  explicit Ranks(const SparseReduction& reduction)
      : r_(reduction), expected_(reduction.size), state_(reduction.out.size()) {
    std::size_t most = 0;
    for (const auto& list : r_.out) {
      most = std::max(most, list.size());
      for (const std::int64_t i : list) expected_[static_cast<std::size_t>(i)] += 1;
    }
    ones_.assign(most, 1);
    most_ = most;
    union_ = static_cast<std::size_t>(
        std::count_if(expected_.begin(), expected_.end(), [](T sum) { return sum > 0; }));
    for (std::size_t rank = 0; rank < state_.size(); ++rank) {
      state_[rank] = std::make_unique<State>();
      if (r_.kind != Kind::make_union) state_[rank]->values.resize(r_.in[rank].size());
    }
  }

  // Makes the routes of kylix.
  Status configure(ListComm& comm, const sparse::Network& network) {
    State& s = of(comm);
    sparse::IndexSet out, in;
    MQ_TRY(lists(comm, out, in));
    constexpr sparse::KylixReduction<ListComm>* kNone = nullptr;
    MQ_TRY(sparse::configure(comm, settings(network), out, out.indices.size(), in, in.indices.size(),
                             s.memory, s.routes, kNone, s.traffic));
    return s.reduction.prepare(s.routes, entry());
  }
  // Along these routes.
  Status start(ListComm& comm) {
    State& s = of(comm);
    MQ_TRY(s.reduction.start(comm, ones_.data(), s.values.data()));
    return sparse::finish(comm, s.reduction);
  }
  Status fused(ListComm& comm, const sparse::Network& network) {
    State& s = of(comm);
    sparse::IndexSet out, in;
    MQ_TRY(lists(comm, out, in));
    return sparse::configure_reduce(comm, settings(network), out, out.indices.size(), ones_.data(), in,
                                    in.indices.size(), s.values.data(), s.memory, s.routes, s.reduction,
                                    s.traffic);
  }
  Status make_union(ListComm& comm, const sparse::Network& network) {
    State& s = of(comm);
    const std::size_t room = r_.dense_result ? expected_.size() : union_;
    s.values.resize(room);
    if (!r_.dense_result) s.indices.resize(room);
    sparse::UnionJob job;
    job.entry = entry();
    job.size = r_.size;
    const auto& list = r_.out[static_cast<std::size_t>(comm.rank())];
    job.list = {{reinterpret_cast<const std::uint64_t*>(list.data()), list.size()}, bytes(ones_)};
    job.algorithm = r_.algorithm;
    job.most_entries = most_;
    job.network = network;
    job.call = kCall;
    job.first_tag = kSparseTag;
    job.output = {r_.dense_result, s.indices.data(), reinterpret_cast<std::byte*>(s.values.data()), room};
    MQ_TRY(sparse::union_allreduce(
        comm, job, s.memory, s.traffic,
        [](void*, std::size_t) {
          return Status{Code::bad_argument, "no MPI to leave the union to"};
        },
        s.result));
    s.memory.reset();
    return {};
  }

  // Compares what a rank has with what it must have, and forgets it.
  Status check(int rank) {
    State& s = *state_[static_cast<std::size_t>(rank)];
    std::size_t wrong = 0;
    if (r_.kind == Kind::make_union) {
      for (std::size_t i = 0; i < s.values.size(); ++i)
        wrong += s.values[i] != expected_[r_.dense_result ? i : static_cast<std::size_t>(s.indices[i])];
      wrong += !r_.dense_result && s.result.count != union_;
    } else {
      const auto& in = r_.in[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < in.size(); ++i)
        wrong += s.values[i] != expected_[static_cast<std::size_t>(in[i])];
    }
    return wrong == 0 ? Status{}
                      : Status{Code::bad_frame, "rank " + std::to_string(rank) + " has " +
                                                    std::to_string(wrong) + " wrong sums"};
  }
  const std::vector<int>& degrees() const { return state_[0]->routes.degrees; }
  sparse::Algorithm algorithm() const { return state_[0]->result.algorithm; }

 private:
  struct State {
    sparse::Workspace memory;
    sparse::KylixRoutes routes;
    sparse::KylixReduction<ListComm> reduction;
    Traffic traffic;
    sparse::UnionResult result;
    std::vector<std::uint64_t> indices;
    std::vector<T> values;
  };
  State& of(const ListComm& comm) { return *state_[static_cast<std::size_t>(comm.rank())]; }
  sparse::Entry entry() const { return {r_.element, sparse::Op::sum, 1}; }
  static const std::byte* bytes(const std::vector<T>& values) {
    return reinterpret_cast<const std::byte*>(values.data());
  }
  sparse::KylixSettings settings(const sparse::Network& network) const {
    sparse::KylixSettings s;
    s.degrees = r_.degrees;
    s.network = network;
    s.entry = entry();
    s.call = kCall;
    s.first_tag = kSparseTag;
    return s;
  }
  Status lists(const ListComm& comm, sparse::IndexSet& out, sparse::IndexSet& in) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    sparse::Workspace& memory = state_[rank]->memory;
    MQ_TRY(sparse::make_index_set(r_.out[rank], sparse::Order::sorted, sparse::kIndexLimit, memory, out));
    return sparse::make_index_set(r_.in[rank], sparse::Order::sorted, sparse::kIndexLimit, memory, in);
  }

  const SparseReduction& r_;
  std::vector<T> expected_;  // by index
  std::vector<T> ones_;
  std::size_t most_ = 0, union_ = 0;
  std::vector<std::unique_ptr<State>> state_;  // a reduction must not move
};

// The agreement that every blocking function of the library begins with.
Status agree(ListComm& comm, Agreement<ListComm>& agreement) {
  std::uint64_t messages = 0;
  MQ_TRY(agreement.start(comm, {}, {}, kAgreementTag));
  while (!agreement.done()) {
    bool moved = false;
    MQ_TRY(agreement.advance(comm, messages, moved));
    if (!moved) comm.idle();
  }
  return agreed_status(agreement.summary());
}

// All ranks run a function from time 0 on. Returns the first error.
template <class F>
Status run(World& world, const ListCosts& costs, const F& function) {
  std::vector<Status> failed(static_cast<std::size_t>(world.size()));
  MQ_TRY(world.run([&](SimComm& plain) {
    ListComm comm(plain, costs);
    failed[static_cast<std::size_t>(comm.rank())] = function(comm);
  }));
  for (Status& status : failed) MQ_TRY(std::move(status));
  return {};
}

template <class T>
SparseResult simulate_as(const SparseReduction& r, const Network& network) {
  const int size = static_cast<int>(r.out.size());
  const sparse::Network model = network_of(network, r.costs);
  const bool routed = r.kind == Kind::kylix && !r.fresh;
  Ranks<T> ranks(r);
  SparseResult result;
  SimulatedResult& s = result.simulated;
  if (routed) {
    World before(size, network);
    s.status = run(before, r.costs, [&](ListComm& comm) { return ranks.configure(comm, model); });
  }
  std::vector<Agreement<ListComm>> agreements(r.out.size());
  World world(size, network);
  if (s.status.ok())
    s.status = run(world, r.costs, [&](ListComm& comm) -> Status {
      if (routed) return ranks.start(comm);
      MQ_TRY(agree(comm, agreements[static_cast<std::size_t>(comm.rank())]));
      if (r.kind == Kind::make_union) return ranks.make_union(comm, model);
      if (r.kind == Kind::fused) return ranks.fused(comm, model);
      MQ_TRY(ranks.configure(comm, model));
      return ranks.start(comm);
    });
  const auto rounds = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(size - 1)));
  for (int rank = 0; rank < size; ++rank) {
    const Counts& counts = world.counts(rank);
    SimulatedRank& simulated = s.ranks.emplace_back();
    simulated.end_s = counts.end_s;
    simulated.wait_s = counts.wait_s;
    simulated.messages = counts.messages;
    simulated.frame_bytes = counts.bytes - std::min(counts.bytes, routed ? 0 : rounds * sizeof(Hello));
    if (s.status.ok()) s.status = ranks.check(rank);
  }
  s.events = world.events();
  s.leaked = world.leaked();
  result.degrees = ranks.degrees();
  result.algorithm = ranks.algorithm();
  return result;
}

}  // namespace

Status check(const SparseReduction& r, const Network& network) {
  const auto unusable = [](std::string text) { return Status{Code::bad_argument, std::move(text)}; };
  MQ_TRY(check(network));
  const int size = static_cast<int>(r.out.size());
  if (size < 2 || size > kMostRanks)
    return unusable(std::to_string(size) + " ranks: from 2 to " + std::to_string(kMostRanks));
  if (size % network.per_node != 0)
    return unusable(std::to_string(network.per_node) + " ranks a node do not divide " + std::to_string(size));
  if (r.element != kernels::Element::f32 && r.element != kernels::Element::f64) return unusable("f32 or f64");
  if (r.kind != Kind::make_union && r.in.size() != r.out.size()) return unusable("a rank has one list only");
  if (r.kind != Kind::make_union && !r.degrees.empty()) MQ_TRY(sparse::check_degrees(r.degrees, size));
  if (r.algorithm == sparse::Algorithm::dense)
    return unusable("the algorithm of a union is auto, allgather, split or recursive_doubling");
  return {};
}

SparseResult simulate(const SparseReduction& reduction, const Network& network) {
  return reduction.element == kernels::Element::f64 ? simulate_as<double>(reduction, network)
                                                    : simulate_as<float>(reduction, network);
}

ListCosts measure_list_costs() {
  sparse::Workspace memory;
  return sparse::detail::list_costs(memory);
}

std::string text_of(const ListCosts& costs) {
  return fmt::format("{:.3g}ns/{:.3g}ns/{:.3g}ns", 1e9 * costs[0], 1e9 * costs[1], 1e9 * costs[2]);
}

}  // namespace mq::sim
