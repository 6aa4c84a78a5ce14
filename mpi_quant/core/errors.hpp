// Turns a Status into an MPI error. There is one code for each mq::Code; its text is that of the latest
// error.
#pragma once

#include <mpi.h>

#include <new>

#include "mpi_quant/base/status.hpp"

namespace mq {

// MPI_SUCCESS if status is ok. Otherwise sets the text, calls the error handler of comm with the code, and
// returns the code. The handler may not return. MPI must be initialised. If the MPI does not fit, comm is no
// handle of that MPI, so the handler is the one of the program's MPI_COMM_WORLD.
int raise(MPI_Comm comm, const Status& status);
// The same without a handler.
int code_of(const Status& status);
// As raise() for a communicator that is freed and had this error handler. The handler is called with
// MPI_COMM_SELF, whose own handler it replaces meanwhile. If it is null, MPI_COMM_SELF's own is called.
int raise_by(MPI_Errhandler handler, const Status& status);

// True if the process runs an MPI of the family that this library was compiled for. If not, no handle that
// the program passes may be used. misfit() is the error for such a call.
bool mpi_fits() noexcept;
Status misfit();

// The exception boundary: returns the status of f, and lack of memory as an error. If the MPI does not fit, f
// is not called, and the result is misfit().
template <class F>
Status guarded_status(const F& f) noexcept {
  try {
    return mpi_fits() ? f() : misfit();
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, "out of memory"};  // short enough to need no memory
  }
}

}  // namespace mq
