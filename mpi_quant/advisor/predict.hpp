// Predicts how long a compressed allreduce would take, from the plan, a model of the link and the measured
// rates of a codec. Uses no MPI.
//
//   t = alpha (rounds of the plan + rounds of the agreement) + measure + max(codec, wire) + fill
//
// codec is the time to encode and decode in the caches, and to bring each element there from the input and
// back to the result. wire is the time to send the data of the rank that sends most. The two overlap segment
// by segment, except for the first segment: fill is the shorter of the two times for one segment. The model
// leaves out what MPI itself does to messages, contention between more ranks than the link was measured with,
// and having more ranks than cores.
#pragma once

#include <cstddef>

#include "kernels/codec.hpp"
#include "mpi_quant/advisor/advisor.hpp"
#include "mpi_quant/advisor/link.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

// Rates per element.
struct CodecRates {
  double encode_s = 0, decode_s = 0;
  double measure_s = 0;  // once per call
  double memory_s = 0;   // to bring an element from memory or back
  double wire_bytes = 0;
};

// The work of the busiest rank in a plan. The unit is a vector: 0.5 is half of its elements.
struct PlanWork {
  int chunks = 1;
  int rounds = 0;    // in which messages are exchanged
  int messages = 0;  // sent or received, whichever is more, per segment
  double encoded = 0, decoded = 0, moved = 0;
};
// Of a plan for these ranks, whose number may be 1 and counts as 2 then.
PlanWork work_of(const PlanRow& plan, const Ranks& ranks);
Losses losses_of(const PlanRow& plan, const Ranks& ranks);

// Seconds of a call of `count` elements. For one plan the result grows with count, with each rate, and with
// alpha and beta. It is never less than the time on the wire.
double predict(const PlanRow& plan, const Ranks& ranks, std::size_t count, kernels::Element element,
               const CodecRates& rates, const LinkModel& link);

// Seconds of a dense allreduce of this many bytes by halving and doubling (Rabenseifner 2004), without the
// time of the additions. This is the limit that the link sets. Compared with the measured time, it shows how
// far off the model is.
double predict_dense(double bytes, int ranks, const LinkModel& link);

}  // namespace mq
