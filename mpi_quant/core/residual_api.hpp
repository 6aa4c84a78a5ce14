// What the files of the MPIQ_Residual_ functions share: checks of arguments, the residuals of a communicator
// under its lock, and the end of each function.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "mpi_quant.h"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/registry.hpp"

namespace mq {

inline std::string quoted(std::string_view key) { return "key \"" + std::string(key) + "\""; }

inline Status check_key(std::string_view key) {
  if (key.size() >= 1 && key.size() <= MPIQ_MAX_KEY) return {};
  return bad_argument(quoted(key) + " is not 1 to " + std::to_string(MPIQ_MAX_KEY) + " characters");
}

inline Status check_key(const char* key) {
  return key == nullptr ? bad_argument("key is NULL") : check_key(std::string_view(key));
}

inline Status check_intracommunicator(MPI_Comm comm) {
  int inter = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter"));
  return inter ? bad_argument("comm is an intercommunicator") : Status{};
}

// The residuals of a communicator, locked while this object lives. It is false if the communicator has no
// state, and so no residuals.
class LockedResiduals {
 public:
  explicit LockedResiduals(CommState* state) : state_(state) {
    if (state_ != nullptr) lock_ = std::unique_lock(state_->mutex);
  }
  explicit LockedResiduals(MPI_Comm comm) : LockedResiduals(find_state(comm)) {}
  explicit operator bool() const { return state_ != nullptr; }
  Residuals* operator->() const { return &state_->residuals; }
  CommState* state() const { return state_; }

 private:
  CommState* state_;
  std::unique_lock<std::mutex> lock_;
};

inline MPI_Datatype residual_type(const Residuals::Entry& entry) {
  return entry.residual_element() == kernels::Element::f64 ? MPI_DOUBLE : MPI_FLOAT;
}

// Calls f with the elements of all arrays of a key.
template <class F>
auto visit(const Residuals::Entry& entry, const F& f) {
  std::byte* const data = entry.buffer.data();  // on the host: call move_to_host first
  if (entry.residual_element() == kernels::Element::f64)
    return f(std::span(reinterpret_cast<double*>(data), entry.count * entry.arrays));
  return f(std::span(reinterpret_cast<float*>(data), entry.count * entry.arrays));
}

// The end of each function. The error, if there is one, begins with the name of the function.
template <class F>
int conclude(MPI_Comm comm, const char* function, const F& f) {
  return raise(comm, guarded_status([&]() -> Status {
                 Status status = f();
                 if (status.ok()) return status;
                 return {status.code(), std::string(function) + ": " + status.text()};
               }));
}

}  // namespace mq
