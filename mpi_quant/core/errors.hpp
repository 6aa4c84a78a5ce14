// Turns a Status into an MPI error. There is one code for each mq::Code; it has the text of the latest error.
#pragma once

#include <mpi.h>

#include <memory>
#include <new>

#include "mpi_quant/base/status.hpp"

namespace mq {

// MPI_SUCCESS if status is ok. Otherwise sets the text, calls the error handler of comm with the code, and
// returns the code. The handler may not return. Before MPI_Init and after MPI_Finalize there are no handlers,
// and the code has no text of its own. If the MPI does not fit, comm is no handle of that MPI, so the handler
// is the one of the program's MPI_COMM_WORLD.
int raise(MPI_Comm comm, const Status& status);
// The same without a handler.
int code_of(const Status& status);

// The error handler that a communicator has when this is made, for errors after the communicator is freed.
class KeptHandler {
 public:
  explicit KeptHandler(MPI_Comm comm) noexcept;
  ~KeptHandler();
  KeptHandler(const KeptHandler&) = delete;
  KeptHandler& operator=(const KeptHandler&) = delete;
  // As raise(). The handler gets a communicator of this rank alone, or where MPI has none left is not called.
  int raise(const Status& status) const;

 private:
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
};

// Null: there is no memory for it.
inline std::shared_ptr<const KeptHandler> keep_handler(MPI_Comm comm) noexcept {
  try {
    return std::make_shared<const KeptHandler>(comm);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

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
