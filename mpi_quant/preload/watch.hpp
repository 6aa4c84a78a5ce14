// The report of a run. It is begun when MPI is initialized and written when MPI is finalized.
#pragma once

#include <atomic>

#include "mpi_quant/memory/feedback_outcome.hpp"

namespace mq {

namespace internal {
extern int watching_word;  // no std::atomic, because the stub reads it
}
// True if a report is wanted. It covers all calls.
inline bool watching() {
  return std::atomic_ref(internal::watching_word).load(std::memory_order_relaxed) != 0;
}

// Begins the report if one is wanted. Only the first call counts. Local. after_init: MPI_Init has just
// returned, on all ranks. Otherwise some ranks may never come here, and each rank writes a report of its own.
void watch(bool after_init) noexcept;

// What became of the feedback of a call, where no report is wanted. Under mpiq-run rank 0 then says in a line
// when MPI is finalized if too many calls went without. Local.
void note_feedback(FeedbackOutcome) noexcept;

}  // namespace mq
