// Predicts how long a compressed call would take, from the model of plan/cost.hpp, a link and the
// measured rates of a codec. Uses no MPI.
#pragma once

#include <cstddef>

#include "mpi_quant/advisor/advisor.hpp"
#include "mpi_quant/base/link.hpp"
#include "mpi_quant/plan/cost.hpp"

namespace mq {

// Seconds for each element.
struct ElementTimes {
  double encode_s = 0, decode_s = 0;
  double measure_s = 0;  // once per call, of this rank's input
  double memory_s = 0;   // to bring an element from memory or back
};

// Seconds of a call by the collective's plan. For one plan the result grows with each rate, and with each
// number of the link.
double predict(Collective collective, const CallShape& call, const ElementTimes& times,
               const LinkModel& link);

// Seconds of MPI's own call on a vector of this many bytes (dense_cost). This is the limit that the link
// sets. Compared with the measured time, it shows how far off the model is.
double predict_dense(Collective collective, double bytes, int ranks, const LinkModel& link);

}  // namespace mq
