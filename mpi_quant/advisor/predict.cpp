#include "mpi_quant/advisor/predict.hpp"

namespace mq {
namespace {

Prices prices_of(const LinkModel& link) {
  Prices prices{};
  prices[Term::latency] = link.latency_s;
  prices[Term::overhead] = link.overhead_s;
  prices[Term::byte] = link.beta_s;
  return prices;
}

}  // namespace

double predict(Collective collective, const CallShape& call, const CodecRates& rates, const LinkModel& link) {
  Prices prices = prices_of(link);
  prices[Term::encode] = rates.encode_s;
  prices[Term::decode] = rates.decode_s;
  prices[Term::memory] = rates.memory_s;
  const double inputs = collective == Collective::allgather ? call.ranks.size : 1;  // that make up the vector
  return static_cast<double>(call.count) / inputs * rates.measure_s +
         cost_of(collective, call, prices).seconds;
}

double predict_dense(Collective collective, double bytes, int ranks, const LinkModel& link) {
  return dense_cost(collective, bytes, ranks, prices_of(link)).seconds;
}

}  // namespace mq
