#include "bench/research/simulate/model.hpp"

#include <algorithm>
#include <limits>

#include "bench/research/simulate/steps.hpp"
#include "mpi_quant/plan/layout.hpp"

namespace mq::sim {

Prices prices_of(const SimulatedCall& call, const Network& network, const Rates& rates) {
  const auto width = static_cast<double>(kernels::element_bytes(call.element));
  const std::size_t all = call.count * kernels::element_bytes(call.element),
                    out = call.is_warm ? all : std::numeric_limits<std::size_t>::max();
  const std::string_view codec = call.method.exact() ? raw_codec().name : call.method.codec->name;
  const auto rate = [&](Work work, std::size_t where) {
    return width * rates.byte_s(codec, work, call.element, where);
  };
  const Work encode = call.feedback ? Work::encode_feedback : Work::encode,
             last = all >= kStreamBytes ? Work::decode_streamed : Work::decode;
  Prices prices;
  prices[Term::latency] = network.latency_s;
  prices[Term::overhead] = network.overhead_s;
  prices[Term::byte] = 1 / network.bandwidth_Bps;
  prices[Term::copy] = network.copy_s;
  prices[Term::encode] = rate(encode, kChunkBytes);
  prices[Term::decode] = rate(Work::add, kChunkBytes);
  const double extra = rate(encode, out) - prices[Term::encode] + rate(last, out) - prices[Term::decode];
  prices[Term::memory] = std::max(extra, 0.0) / 2;
  prices[Term::step] = call.step_s;
  return prices;
}

Cost model_of(const SimulatedCall& call, const Network& network, const Rates& rates) {
  const Prices prices = prices_of(call, network, rates);
  if (call.method.exact())
    return dense_cost(call.collective, static_cast<double>(call.count * kernels::element_bytes(call.element)),
                      call.ranks, prices);
  CallShape shape;
  shape.ranks = {0, call.ranks, network.per_node, call.method.codec->exact_sums};
  shape.count = call.count;
  shape.element_bytes = kernels::element_bytes(call.element);
  shape.block = call.method.codec->block(call.method.params);
  shape.whole = call.method.codec->whole(call.method.params);
  const std::size_t sample =
      std::min(std::max<std::size_t>(call.count, 1), kChunkBytes / shape.element_bytes);
  WireSizes sizes(*call.method.codec, call.method.params, call.element, call.feedback);
  shape.wire_bytes = static_cast<double>(sizes.bytes(sample)) / static_cast<double>(sample);
  if (call.collective != Collective::allreduce) return cost_of(call.collective, shape, prices);
  return cost_of(plan_of(call), shape, prices);
}

}  // namespace mq::sim
