// Status to MPI error: one code for each mq::Code, whose text is that of the latest error of its kind.
#pragma once

#include <mpi.h>

#include <new>

#include "mpi_quant/base/status.hpp"

namespace mq {

// MPI_SUCCESS for ok; else sets the text, calls the error handler of comm with the code (which may not
// return) and gives the code back. Needs an initialised MPI. Where the MPI does not fit, the handler is that
// of the program's MPI_COMM_WORLD: comm is no handle of that MPI.
int raise(MPI_Comm comm, const Status& status);

// Whether the process runs an MPI of the family that this library was compiled for. If not, no handle that
// the program passes may be touched. misfit(): the error for such a call.
bool mpi_fits() noexcept;
Status misfit();

// The exception boundary: the status of f, with shortage of memory as one. f is not called, and the status is
// an error, where the MPI does not fit.
template <class F>
Status guarded_status(const F& f) noexcept {
  try {
    return mpi_fits() ? f() : misfit();
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, "out of memory"};  // short enough to need none
  }
}

}  // namespace mq
