// Non-blocking and persistent calls: what an MPIQ_Request is. They are advanced by in_flight.hpp's functions.
#pragma once

#include <mpi.h>

#include <memory>

#include "mpi_quant.h"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/in_flight.hpp"

namespace mq {

// What a request starts: an allreduce, or a reduction of another part of the library.
class Startable {
 public:
  virtual ~Startable() = default;
  // The call's side of it, to be advanced. Null if it is over when start() returns: on one rank.
  virtual InFlight* in_flight() = 0;
  // The state's mutex is held, if there is a state. local_error: why this rank cannot take part.
  virtual void start(Status local_error) noexcept = 0;
  // Of a call that is done. Likewise.
  virtual Status result() noexcept = 0;
};

// A request, without its call, of a communicator; then with it. For calls that another part makes, of which
// every rank has to hear that one rank has no memory for a request: allocate() comes before the agreement.
struct DeleteRequest {
  void operator()(MPIQ_Request request) const noexcept;
};
using OwnedRequest = std::unique_ptr<MPIQ_Request_object, DeleteRequest>;
OwnedRequest allocate_request(MPI_Comm comm) noexcept;  // null: no memory
void set_call(MPIQ_Request_object& request, std::unique_ptr<Startable> call) noexcept;

// The bodies of the MPIQ_ functions of the same names; the communicator whose error handler is to be called
// comes back in comm.
Status iallreduce(const Call& call, const CallOptions& options, MPIQ_Request* request);
Status allreduce_init(const Call& call, const CallOptions& options, MPIQ_Request* request);
Status start(MPIQ_Request* request, MPI_Comm& comm);
Status test(MPIQ_Request* request, int* flag, MPI_Comm& comm);
Status wait(MPIQ_Request* request, MPI_Comm& comm);
Status request_free(MPIQ_Request* request, MPI_Comm& comm);

}  // namespace mq
