// The advisor in a running program. It sees the program's calls; at the end it measures what the predictions
// need.
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

// A call that stays exact: the constructor runs before MPI makes the call, after() runs when MPI has made it.
class AdvisedCall {
 public:
  // wanted: a codec could serve the call, and the program runs to be advised. Local.
  AdvisedCall(const Call& call, bool wanted) noexcept;
  // succeeded: the result is valid.
  void after(bool succeeded) noexcept;

 private:
  std::optional<ClassId> id_;  // none: not wanted
  Vectors vectors_;
  bool is_kept_ = false;  // before the call overwrites the input
  Advisor::Kept kept_;
};

// What this rank saw, and the seconds that the advisor took.
Samples own_samples();
double advisor_seconds();

// What is measured when the program is over.
struct Field {
  std::optional<LinkModel> link;
  // At rank 0: of each candidate, on the class with the most time of each collective.
  std::vector<Validation> validations;
};
// Collective over MPI_COMM_WORLD, called before MPI is finalized. evidence: on rank 0 what all ranks know,
// without a link; ignored on other ranks. An error is one of MPI.
Result<Field> measure_field(const Evidence& evidence);

}  // namespace mq
