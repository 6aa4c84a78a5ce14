// Status to MPI error: one code for each mq::Code, whose text is that of the latest error of its kind.
#pragma once

#include <mpi.h>

#include <new>

#include "mpi_quant/base/status.hpp"

namespace mq {

// MPI_SUCCESS for ok; else sets the text, calls the error handler of comm with the code (which may not
// return) and gives the code back. Needs an initialised MPI.
int raise(MPI_Comm comm, const Status& status);

// The exception boundary: the status of f, with shortage of memory as one.
template <class F>
Status guarded_status(const F& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, "out of memory"};  // short enough to need none
  }
}

}  // namespace mq
