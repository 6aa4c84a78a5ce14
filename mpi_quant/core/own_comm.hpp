// Makes the library's own communicators from the program's. MPI may have none left, or only on some ranks.
// The program's error handler is not called for that.
#pragma once

#include <mpi.h>

#include <string_view>

#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"

namespace mq {

inline void leave_to_caller(MPI_Comm*, int*, ...) {}

// Errors on comm are returned from now on. In the standard ABI by a handler that does nothing: MPICH 5.0 and
// Intel MPI 2021.18 have different numbers for MPI_ERRORS_RETURN, and take the other's for MPI_ERRORS_ABORT.
inline int return_errors(MPI_Comm comm) noexcept {
  if constexpr (std::string_view(kFamily) != "abi") return PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Errhandler made = MPI_ERRHANDLER_NULL;
  int code = PMPI_Comm_create_errhandler(leave_to_caller, &made);
  if (code != MPI_SUCCESS) return code;
  code = PMPI_Comm_set_errhandler(comm, made);
  (void)PMPI_Errhandler_free(&made);  // the communicator keeps it
  return code;
}

// While it lives, errors on comm are returned instead of handled.
class QuietErrors {
 public:
  explicit QuietErrors(MPI_Comm comm) : comm_(comm) {
    if (PMPI_Comm_get_errhandler(comm, &before_) == MPI_SUCCESS) (void)return_errors(comm);
  }
  ~QuietErrors() {
    if (before_ == MPI_ERRHANDLER_NULL) return;
    (void)PMPI_Comm_set_errhandler(comm_, before_);
    (void)PMPI_Errhandler_free(&before_);
  }
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

// Collective. Makes a communicator of the ranks of comm in their order, which returns errors. It is a split
// and not a dup, because a dup would run the program's attribute copy callbacks and copy its topology and
// info.
inline Status split_off(MPI_Comm comm, MPI_Comm& made) noexcept {
  int rank = 0;
  MQ_TRY(mpi_status(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
  const QuietErrors quiet(comm);
  MQ_TRY(mpi_status(PMPI_Comm_split(comm, 0, rank, &made), "MPI_Comm_split"));
  return mpi_status(return_errors(made), "MPI_Comm_set_errhandler");
}

// Collective. Makes a communicator of the ranks of comm that share this rank's node, which returns errors.
inline Status split_off_node(MPI_Comm comm, MPI_Comm& made) noexcept {
  const QuietErrors quiet(comm);
  MQ_TRY(mpi_status(PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made),
                    "MPI_Comm_split_type"));
  return mpi_status(return_errors(made), "MPI_Comm_set_errhandler");
}

}  // namespace mq
