// The report of a run: started with MPI, written when MPI is finalized.
#pragma once

namespace mq {

namespace internal {
extern int watching;
}
// Not 0: a report is wanted, of all calls.
inline const int& watching = internal::watching;

// Once: if a report is wanted, sees to it. Local. after_init: MPI_Init has just returned, on all ranks; else
// some ranks may never come here, and each writes for itself.
void watch(bool after_init) noexcept;

}  // namespace mq
