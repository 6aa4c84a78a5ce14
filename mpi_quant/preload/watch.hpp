// The report of a run. It is begun when MPI is initialized and written when MPI is finalized.
#pragma once

#include <atomic>

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

}  // namespace mq
