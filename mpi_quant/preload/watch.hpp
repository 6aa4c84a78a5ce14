// The report of a run: started with MPI, written when MPI is finalized.
#pragma once

#include <atomic>

namespace mq {

namespace internal {
extern int watching_word;  // the front reads it, hence no std::atomic
}
// A report is wanted, of all calls.
inline bool watching() {
  return std::atomic_ref(internal::watching_word).load(std::memory_order_relaxed) != 0;
}

// Once: if a report is wanted, sees to it. Local. after_init: MPI_Init has just returned, on all ranks; else
// some ranks may never come here, and each writes for itself.
void watch(bool after_init) noexcept;

}  // namespace mq
