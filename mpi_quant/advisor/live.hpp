// The advisor in a running program: sees its calls, and at the end measures what the predictions need.
#pragma once

#include <mpi.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi_quant/advisor/advice.hpp"
#include "mpi_quant/advisor/advisor.hpp"
#include "mpi_quant/core/allreduce.hpp"

namespace mq {

// A call that stays exact, before and after MPI makes it.
class AdvisedCall {
 public:
  // wanted: it is a sum that a codec could serve, and the program runs to be advised.
  AdvisedCall(const Call& call, bool wanted) noexcept;
  // succeeded: the result is there.
  void after(bool succeeded) noexcept;

 private:
  const Call& call_;
  std::optional<ClassId> id_;  // none: not wanted
  Advisor::Kept kept_;
};

// What this rank saw, and the seconds it took.
Samples own_samples();
double advisor_seconds();

// What is measured when the program is over.
struct Field {
  std::optional<LinkModel> link;
  std::vector<Validation> validations;  // of each candidate, on the class with most time; at rank 0
};
// Collective over MPI_COMM_WORLD, before MPI is finalized. evidence: of all ranks at rank 0, without link;
// ignored elsewhere. An error: of MPI.
Result<Field> measure_field(const Evidence& evidence);

}  // namespace mq
