// Non-blocking and persistent calls, and what an MPIQ_Request is. The functions of in_flight.hpp advance
// them.
#pragma once

#include <mpi.h>

#include <memory>

#include "mpi_quant.h"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/request.hpp"

namespace mq {

// What a request starts: a collective, or a reduction of another part of the library.
class Startable {
 public:
  virtual ~Startable() = default;
  // The call to be advanced. Null if it is over when start() returns, as on one rank.
  virtual InFlight* in_flight() = 0;
  // local_error: why this rank cannot take part. If there is a state, its mutex must be held.
  virtual void start(Status local_error) noexcept = 0;
  // For a call that is done. If there is a state, its mutex must be held.
  virtual Status result() noexcept = 0;
};

// Requests for calls of another part of the library. allocate_request() comes before the agreement, so that
// all ranks learn if one has no memory for a request. set_call() adds the call later.
struct DeleteRequest {
  void operator()(MPIQ_Request request) const noexcept;
};
using OwnedRequest = std::unique_ptr<MPIQ_Request_object, DeleteRequest>;
OwnedRequest allocate_request(MPI_Comm comm) noexcept;  // null: no memory
void set_call(MPIQ_Request_object& request, std::unique_ptr<Startable> call) noexcept;

// Which error handler is to be called: the handler of a communicator or, if the program may have freed the
// communicator, the handler that it had.
struct Handler {
  MPI_Comm comm = MPI_COMM_SELF;
  std::shared_ptr<const KeptHandler> kept;  // null: the handler of comm
};
// Calls it, as raise() of errors.hpp.
int raise(const Handler& handler, const Status& status);

// A call that does not block, and one that is started many times. function: whose error it is if `request` is
// null.
Status start_once(const Request& wanted, const char* function, MPIQ_Request* request);
Status make_persistent(const Request& wanted, const char* function, MPIQ_Request* request);
// The bodies of the MPIQ_ functions of the same names. They set `handler`.
Status start(MPIQ_Request* request, Handler& handler);
Status test(MPIQ_Request* request, int* flag, Handler& handler);
Status wait(MPIQ_Request* request, Handler& handler);
Status request_free(MPIQ_Request* request, Handler& handler);

}  // namespace mq
