// What save and restore both need: a private communicator, pieces that go from one rank to another, and
// errors as values.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <exception>
#include <string>

#include "mpi_quant.h"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/own_comm.hpp"

namespace mq {

class Team {
 public:
  Team() = default;
  ~Team() {
    if (comm_ != MPI_COMM_NULL) (void)PMPI_Comm_free(&comm_);
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Collective over user_comm, which must be an intracommunicator.
  Status gather(MPI_Comm user_comm) {
    int inter = 0;
    MPI_Count bytes = 0;
    if (MPIQ_Wire_bound("raw", 0, MPI_FLOAT, &bytes) != MPI_SUCCESS)  // before user_comm is touched
      return {Code::bad_argument, "this library does not fit the MPI of the program"};
    MQ_TRY(mpi_status(PMPI_Comm_test_inter(user_comm, &inter), "MPI_Comm_test_inter"));
    if (inter) return {Code::bad_argument, "comm is an intercommunicator"};
    MQ_TRY(mpi_status(PMPI_Comm_rank(user_comm, &rank_), "MPI_Comm_rank"));
    MQ_TRY(mpi_status(PMPI_Comm_size(user_comm, &size_), "MPI_Comm_size"));
    return split_off(user_comm, comm_);
  }
  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Moves `values` from one rank to another. Does nothing if both are the same, or if this rank is neither.
  // The send is synchronous, so that pieces do not pile up in the memory of a rank that is busy with another
  // piece.
  Status move(int from, int to, void* values, MPI_Count n, MPI_Datatype type) const {
    const int count = static_cast<int>(n);
    if (from == to) return {};
    if (rank_ == from) return mpi_status(PMPI_Ssend(values, count, type, to, 0, comm_), "MPI_Ssend");
    if (rank_ != to) return {};
    return mpi_status(PMPI_Recv(values, count, type, from, 0, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

// Runs f, and turns what it throws into a status.
template <class F>
Status attempt(const F& f) noexcept {
  try {
    f();
    return {};
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, "out of memory"};
  } catch (const std::exception& e) {
    try {
      return {Code::extension, e.what()};
    } catch (const std::exception&) {
      return {Code::no_memory, "out of memory"};
    }
  }
}

// The end of a function. Returns MPI_SUCCESS, or raises the error on comm with the name of the function
// before it.
inline int conclude(MPI_Comm comm, const char* function, const Status& status) {
  if (status.ok()) return MPI_SUCCESS;
  std::string text;
  const Status named = attempt([&] { text = std::string(function) + ": " + status.text(); });
  return MPIQ_Comm_raise(comm, named.ok() ? text.c_str() : function);
}

}  // namespace mq
