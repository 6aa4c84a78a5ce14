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

double predict(Collective collective, const CallShape& call, const ElementTimes& times,
               const LinkModel& link) {
  Prices prices = prices_of(link);
  prices[Term::encode] = times.encode_s;
  prices[Term::decode] = times.decode_s;
  prices[Term::memory] = times.memory_s;
  const double inputs = collective == Collective::allgather ? call.ranks.size : 1;  // that make up the vector
  return static_cast<double>(call.count) / inputs * times.measure_s +
         cost_of(collective, call, prices).seconds;
}

double predict_dense(Collective collective, double bytes, int ranks, const LinkModel& link) {
  return dense_cost(collective, bytes, ranks, prices_of(link)).seconds;
}

}  // namespace mq
