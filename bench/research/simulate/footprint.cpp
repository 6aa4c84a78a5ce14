#include "bench/research/simulate/footprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "mpi_quant/engine/execute.hpp"
#include "mpi_quant/engine/host_steps.hpp"
#include "mpi_quant/plan/cost.hpp"

namespace mq::sim {
namespace {

// What one rank keeps. Vectors exist, unlike in a simulation, and nothing is sent.
void add_rank(const SimulatedCall& call, int rank, Footprint& f) {
  const kernels::Codec& codec = *call.method.codec;
  const Plan plan = plan_of(call).make({rank, call.ranks, 1, codec.exact_sums});
  const PlanIndex plan_index = index_of(plan);
  HostBackend backend;
  Reduction r;
  r.plan = &plan;
  r.plan_index = &plan_index;
  r.codec = &codec;
  r.ops = codec.ops(call.element, kernels::best_isa());
  r.raw_ops = raw_codec().ops(call.element, kernels::best_isa());
  r.backend = &backend;
  r.params = call.method.params;
  r.element = call.element;
  r.count = call.count;
  r.rank = rank;
  r.size = call.ranks;
  r.pipelines = r.tag_segments = pipelines_of(plan, call.ranks);
  std::byte residual{};  // compared with null, never read
  if (call.feedback) r.residual = &residual;
  std::set<int> peers;
  for (const Step& step : plan.steps)
    if (step.op == Op::exchange && step.to != kNobody) peers.insert(step.to);
  for (int distance = 1; distance < call.ranks; distance *= 2) peers.insert((rank + distance) % call.ranks);
  const std::size_t known = plan_index.early.size() + plan_index.final.size() +
                            sizeof(int) * (plan_index.accumulator.size() + plan_index.first_send.size());
  f.peers = std::max(f.peers, peers.size());
  f.steps = std::max(f.steps, plan.steps.size());
  f.plan_bytes = std::max(f.plan_bytes, plan.steps.size() * sizeof(Step) + known);
  f.requests = std::max(f.requests, static_cast<std::size_t>(plan.slots + plan_index.first_send.back()));
  f.buffer_bytes = std::max(f.buffer_bytes, Execution<SimComm>::scratch_bytes(r));
}

}  // namespace

Footprint footprint(const SimulatedCall& call, const Network& network, const Rates& rates) {
  Footprint f;
  const std::uint64_t rounds = std::bit_width(static_cast<unsigned>(call.ranks - 1));
  for (const SimulatedRank& rank : simulate(call, network, rates).ranks) {
    f.messages = std::max(f.messages, rank.messages);
    f.bytes = std::max(f.bytes, rank.frame_bytes + rounds * sizeof(Hello));
  }
  for (int rank = 0; rank < call.ranks; ++rank) add_rank(call, rank, f);
  return f;
}

std::string footprint_table(int most_ranks) {
  constexpr int kRanks[]{2, 8, 64, 256, 1024};
  std::string text =
      "| ranks | plan | messages | KB sent | peers | steps | plan KiB | requests | buffers KiB |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  for (const int ranks : kRanks)
    for (const char* const plan : {"direct", "grid", "recursive_doubling"}) {
      if (ranks > most_ranks) continue;
      SimulatedCall call;
      call.method = *parse_method(std::string("onebit/") + plan);
      call.count = std::size_t{1} << 18;
      call.ranks = ranks;
      const Footprint f = footprint(call, {}, Rates::constant(0));
      text += fmt::format("| {} | `{}` | {} | {:.1f} | {} | {} | {:.1f} | {} | {:.0f} |\n", ranks, plan,
                          f.messages, static_cast<double>(f.bytes) / 1000, f.peers, f.steps,
                          static_cast<double>(f.plan_bytes) / 1024, f.requests,
                          static_cast<double>(f.buffer_bytes) / 1024);
    }
  return text;
}

}  // namespace mq::sim
