// How long a compressed allreduce would take: the plan folded over a model of the link and the measured rates
// of a codec. Knows no MPI.
//
//   t = alpha (rounds of the plan + rounds of the agreement) + propose + max(codec, wire) + fill
//
// codec is the encoding and decoding in the caches, and bringing each element there from the input and back
// to the result; wire is the sending of the rank with most of it; they overlap, segment by
// segment, but for the first segment: fill is the shorter of the two for one segment. Left out: what MPI
// itself does to messages, contention between more ranks than the link was measured with, and more ranks than
// cores.
#pragma once

#include <cstddef>

#include "kernels/codec.hpp"
#include "mpi_quant/advisor/advisor.hpp"
#include "mpi_quant/advisor/link.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

// Of one element.
struct CodecRates {
  double encode_s = 0, decode_s = 0;
  double propose_s = 0;  // once a call
  double memory_s = 0;   // to bring it from memory or back
  double wire_bytes = 0;
};

// What a plan has the busiest rank do, in vectors: 0.5 is half of its elements.
struct PlanWork {
  int chunks = 1;
  int rounds = 0;    // in which messages are exchanged
  int messages = 0;  // sent or received, whichever is more; of one segment
  double encoded = 0, decoded = 0, moved = 0;
};
PlanWork work_of(const PlanRow& plan, int ranks);
Losses losses_of(const PlanRow& plan, int ranks);

// Seconds of a call of `count` elements. Grows with count (for one plan), with each rate, alpha and beta, and
// is never less than the time on the wire.
double predict(const PlanRow& plan, int ranks, std::size_t count, kernels::Element element,
               const CodecRates& rates, const LinkModel& link);

// Seconds of a dense allreduce of so many bytes, by halving and doubling (Rabenseifner 2004) without the time
// of the additions: what the link alone allows. Beside the measured time it tells how far off the model is.
double predict_dense(double bytes, int ranks, const LinkModel& link);

}  // namespace mq
