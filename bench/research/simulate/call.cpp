#include "bench/research/simulate/call.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "bench/parts.hpp"
#include "bench/research/simulate/steps.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/core/call_order.hpp"
#include "mpi_quant/engine/agree.hpp"
#include "mpi_quant/plan/cost.hpp"

namespace mq::sim {
namespace {

constexpr int kBarrierTag = CallOrder::kTagsPerWindow * static_cast<int>(CallOrder::kWindows);

Signature signature_of(const SimulatedCall& call, const PlanRow& plan) {
  Signature s;
  s.count = call.count;
  s.params_hash = hash_of(call.method.params);
  s.codec = call.method.codec->id;
  s.plan = plan.id;
  s.element = static_cast<std::uint8_t>(call.element);
  return s;
}

// A call on one rank, from its plan to its end. It is what core/running_call.cpp does, without MPI.
class RankCall {
 public:
  RankCall(SimComm& comm, const SimulatedCall& call, const kernels::Codec& codec, const PlanRow& row,
           const Network& network, const StepCosts& costs)
      : comm_(comm),
        plan_(row.make({comm.rank(), comm.size(), network.per_node, codec.exact_sums,
                        call.feedback && (call.collective == Collective::reduce_scatter ||
                                          call.collective == Collective::reduce),
                        bench::kRoot})),
        plan_index_(index_of(plan_)),
        backend_([&comm](double seconds) { comm.compute(seconds); }, costs) {
    const kernels::Isa isa = kernels::best_isa();
    Reduction& r = reduction_;
    r.plan = &plan_;
    r.plan_index = &plan_index_;
    r.codec = &codec;
    r.ops = codec.ops(call.element, isa);
    r.raw_ops = raw_codec().ops(call.element, isa);
    r.backend = &backend_;
    r.params = call.method.params;
    r.element = call.element;
    r.count = call.count;
    r.rank = comm.rank();
    r.size = comm.size();
    r.pipelines = r.tag_segments = pipelines_of(plan_, comm.size(), call.segments);
    if (call.collective != Collective::allreduce) cut(call.collective);
    signature_ = signature_of(call, row);
    r.call = hash_of(signature_);
    r.random_key = call.random_key;
    place_vectors(call);
  }

  // May throw std::bad_alloc. window: of tags, as in core/call_order.hpp.
  Status start(int window) {
    if (!scratch_.reserve(Execution<SimComm>::scratch_bytes(reduction_))) throw std::bad_alloc();
    reduction_.first_tag = window * CallOrder::kTagsPerWindow;
    execution_.prepare(reduction_, scratch_.data());
    return agreement_.start(comm_, signature_, {}, reduction_.first_tag + CallOrder::kTagsPerWindow - 1);
  }

  // A returned error means that the ranks waited for ever.
  Status advance(bool& moved) {
    if (!is_running_) {
      std::uint64_t messages = 0;
      MQ_TRY(agreement_.advance(comm_, messages, moved));
      if (!agreement_.done()) return {};
      moved = is_running_ = true;
      agreed_s_ = comm_.now_s();
      MQ_TRY(execution_.start(comm_));
    }
    return execution_.advance(comm_, tally_, moved);
  }
  bool done() const { return is_running_ && execution_.done(); }
  double agreed_s() const { return agreed_s_; }
  const Tally& tally() const { return tally_; }
  // Why there is no result.
  Status failure() const {
    MQ_TRY(agreed_status(agreement_.summary()));
    return execution_.failure();
  }

 private:
  // The parts of all ranks, or the root, and what this one brings and gets.
  void cut(Collective collective) {
    const auto range = [](const bench::Part& part) { return Range{part.begin, part.count}; };
    const int p = comm_.size(), rank = comm_.rank();
    for (int r = 0; r < p && !has_root(collective); ++r)
      ends_.push_back(bench::part_of(reduction_.count, p, r).end());
    reduction_.parts.ends = ends_;
    if (has_root(collective)) reduction_.parts.root = bench::kRoot;
    reduction_.parts.input = range(bench::input_of(collective, reduction_.count, p, rank));
    reduction_.parts.output = range(bench::output_of(collective, reduction_.count, p, rank));
  }
  void place_vectors(const SimulatedCall& call) {
    const auto rank = static_cast<std::size_t>(comm_.rank());
    if (call.vectors != nullptr) {
      reduction_.input = call.vectors->input[rank];
      reduction_.output = call.vectors->output[rank];
      reduction_.residual = call.vectors->residual.empty() ? nullptr : call.vectors->residual[rank];
      return;
    }
    // The steps compare this with null and never read it. Frames with raw elements are as short as all
    // others.
    if (call.feedback) reduction_.residual = &no_residual_;
    plan_index_.raw = false;
  }

  SimComm& comm_;
  Plan plan_;
  PlanIndex plan_index_;
  SimBackend backend_;
  Reduction reduction_;
  std::vector<std::size_t> ends_;
  Signature signature_;
  std::byte no_residual_{};
  Buffer scratch_;
  Tally tally_;
  Agreement<SimComm> agreement_;
  Execution<SimComm> execution_;
  bool is_running_ = false;
  double agreed_s_ = 0;
};

// All calls of a rank, side by side, as requests that the program tests in turn.
Status run(SimComm& comm, std::span<const std::unique_ptr<RankCall>> calls, SimulatedRank& outcome) {
  for (std::size_t i = 0; i < calls.size(); ++i) MQ_TRY(calls[i]->start(static_cast<int>(i)));
  const auto is_done = [](const auto& call) { return call->done(); };
  while (!std::all_of(calls.begin(), calls.end(), is_done)) {
    bool moved = false;
    for (const auto& call : calls)
      if (!call->done()) MQ_TRY(call->advance(moved));
    if (!moved) comm.idle();
  }
  Status status;
  for (const auto& call : calls) {
    outcome.agreed_s = std::max(outcome.agreed_s, call->agreed_s());
    outcome.encode_s += call->tally().encode_s;
    outcome.decode_s += call->tally().decode_s;
    if (status.ok()) status = call->failure();
  }
  return status;
}

}  // namespace

Status barrier(SimComm& comm) {
  const int p = comm.size();
  for (int hop = 1; hop < p; hop *= 2) {
    SimComm::Request sent, received;
    std::size_t bytes = 0;
    MQ_TRY(comm.receive((comm.rank() + p - hop) % p, kBarrierTag, {}, received));
    MQ_TRY(comm.send((comm.rank() + hop) % p, kBarrierTag, {}, sent));
    for (SimComm::Request* const request : {&received, &sent})
      for (bool done = false; !done;) {
        MQ_TRY(comm.test(*request, done, bytes));
        if (!done) comm.idle();
      }
  }
  return {};
}

int pipelines_of(const Plan& plan, int ranks, int segments) {
  return std::min(segments > 0 ? segments : usual_pipelines(ranks),
                  (CallOrder::kTagsPerWindow - 1) / tags_of(plan));
}

const SimulatedRank& SimulatedResult::last() const {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const SimulatedRank& a, const SimulatedRank& b) { return a.end_s < b.end_s; });
}

const PlanRow& plan_of(const SimulatedCall& call) {
  const kernels::Codec* const codec = call.method.codec;
  const std::uint64_t encoded_bytes =
      codec != nullptr ? codec->wire_bound(call.count, call.element, call.method.params) : 0;
  if (const PlanRow* const own = mq::plan_of(call.collective, encoded_bytes, call.ranks); own != nullptr)
    return *own;
  return call.method.plan != nullptr
             ? *call.method.plan
             : choose_plan(call.count * kernels::element_bytes(call.element), call.ranks);
}

Status check(const SimulatedCall& call, const Network& network, const Rates& rates) {
  const auto unusable = [](std::string text) { return Status{Code::bad_argument, std::move(text)}; };
  MQ_TRY(check(network));
  if (call.method.exact() && (call.vectors != nullptr || call.calls != 1))
    return unusable("mpi is simulated without vectors, one call at a time");
  if (call.collective != Collective::allreduce && call.vectors != nullptr)
    return unusable("parts are simulated without vectors");
  if (const std::string why = unfit_for(call.collective, call.method); !why.empty()) return unusable(why);
  if (call.method.memory_rule().id != kernels::carry_rule().id)
    return unusable("there are no rates of memory rules");
  if (call.ranks < 2 || call.ranks > kMostRanks)
    return unusable(std::to_string(call.ranks) + " ranks: from 2 to " + std::to_string(kMostRanks));
  if (call.calls < 1 || call.calls > static_cast<int>(CallOrder::kWindows) ||
      (call.calls > 1 && call.vectors != nullptr))
    return unusable(std::to_string(call.calls) + " calls at once: from 1 to " +
                    std::to_string(CallOrder::kWindows) + ", and 1 with vectors");
  if (call.ranks % network.per_node != 0)
    return unusable(std::to_string(network.per_node) + " ranks a node do not divide " +
                    std::to_string(call.ranks));
  if (call.repeats < 1 || (call.repeats > 1 && call.vectors != nullptr))
    return unusable(std::to_string(call.repeats) + " calls one after the other: from 1, and 1 with vectors");
  if (kernels::compute_element(call.element) != call.element)
    return unusable("there are no rates of half types: f32 or f64");
  const std::string_view coded = call.method.exact() ? raw_codec().name : call.method.codec->name;
  for (const std::string_view codec : {coded, raw_codec().name})
    if (const std::string reason = rates.missing(codec, call.element); !reason.empty())
      return unusable(reason);
  return {};
}

SimulatedResult simulate(const SimulatedCall& call, const Network& network, const Rates& rates) {
  const bool feedback = call.vectors != nullptr ? !call.vectors->residual.empty() : call.feedback;
  WireSizes coded(*call.method.codec, call.method.params, call.element, feedback),
      raw(raw_codec(), {}, call.element, false);
  StepCosts costs{&rates, call.is_warm, call.step_s, &coded, &raw};
  kernels::Codec codec = described_codec(*call.method.codec);
  if (call.vectors != nullptr) {
    costs.coded = costs.raw = nullptr;
    codec = *call.method.codec;
  }
  SimulatedResult result;
  result.plan = &plan_of(call);
  result.ranks.resize(static_cast<std::size_t>(call.ranks));
  std::vector<Status> failed(result.ranks.size());
  std::vector<Counts> before(result.ranks.size());  // of the call that counts
  World world(call.ranks, network, call.vectors != nullptr ? nullptr : wire_bytes_of, call.loses);
  result.status = world.run([&](SimComm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (int repeat = 0; repeat < call.repeats && failed[rank].ok(); ++repeat) {
      std::vector<std::unique_ptr<RankCall>> calls;
      for (int i = 0; i < call.calls; ++i)
        calls.push_back(std::make_unique<RankCall>(comm, call, codec, *result.plan, network, costs));
      if (repeat > 0) failed[rank] = barrier(comm);
      before[rank] = world.counts(comm.rank());
      before[rank].end_s = comm.now_s();
      result.ranks[rank] = {};
      if (failed[rank].ok()) failed[rank] = run(comm, calls, result.ranks[rank]);
    }
  });
  const auto rounds = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(call.ranks - 1)));
  const std::uint64_t agreement_bytes = rounds * sizeof(Hello) * static_cast<std::uint64_t>(call.calls);
  for (int r = 0; r < call.ranks; ++r) {
    const Counts& counts = world.counts(r);
    const Counts& earlier = before[static_cast<std::size_t>(r)];
    SimulatedRank& rank = result.ranks[static_cast<std::size_t>(r)];
    rank.end_s = counts.end_s - earlier.end_s;
    rank.agreed_s = std::max(0.0, rank.agreed_s - earlier.end_s);
    rank.wait_s = counts.wait_s - earlier.wait_s;
    rank.messages = counts.messages - earlier.messages;
    rank.frame_bytes = std::max(counts.bytes - earlier.bytes, agreement_bytes) - agreement_bytes;
    if (result.status.ok()) result.status = failed[static_cast<std::size_t>(r)];
  }
  result.events = world.events();
  result.leaked = world.leaked();
  return result;
}

}  // namespace mq::sim
