// A blocking sparse call on its communicator: its place among the calls in flight, the agreement that opens
// it, and what it leaves behind. The reductions themselves are sparse_allreduce's.
#pragma once

#include <mpi.h>

#include <memory>
#include <mutex>
#include <optional>

#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/sparse/state.hpp"
#include "sparse_allreduce/measure.hpp"

namespace mq {

// MPI messages whose idle time is lent to the calls in flight: a rank that waits here may be the one that
// another rank needs to complete an older call.
class PatientComm {
 public:
  using Request = MpiComm::Request;
  explicit PatientComm(const MpiComm& comm) : comm_(comm) {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  Status send(int to, int tag, std::span<const std::byte> out, Request& request) {
    return comm_.send(to, tag, out, request);
  }
  Status receive(int from, int tag, std::span<std::byte> in, Request& request) {
    return comm_.receive(from, tag, in, request);
  }
  Status test(Request& request, bool& done, std::size_t& received_bytes) {
    return comm_.test(request, done, received_bytes);
  }
  void idle() {
    if (advance_requests())
      comm_.busy();
    else
      comm_.idle();
  }
  void busy() { comm_.busy(); }
  MPI_Comm handle() const { return comm_.handle(); }
  MpiComm& plain() { return comm_; }

 private:
  MpiComm comm_;  // a copy: others may use the communicator meanwhile
};
static_assert(Comm<PatientComm>);

// begin, agree, reduce, end; each once, in this order. A communicator of one rank has no state and agrees
// with itself.
class BlockingSparse {
 public:
  BlockingSparse() = default;
  ~BlockingSparse();
  BlockingSparse(const BlockingSparse&) = delete;
  BlockingSparse& operator=(const BlockingSparse&) = delete;

  // Collective at the first use of user_comm.
  // timeout_s: for which other ranks may keep this one waiting; 0: for ever.
  Status begin(MPI_Comm user_comm, double timeout_s);
  // Takes the memory that network() needs, so that it cannot fail between the ranks. Throws std::bad_alloc.
  void make_room() {
    if (state_ == nullptr || sparse_state(*state_).network) return;
    (void)own_memory_.take<std::byte>(sparse::kMeasureBytes);
    own_memory_.reset();
  }
  // Waits for the ranks; ok if all came with equal signatures and no local error. local_error: of this rank.
  // proposal becomes the greatest of all ranks'.
  Status agree(Signature signature, const Status& local_error, double& proposal);
  // The network as measured at the first call of this function. Collective; after make_room().
  Status network(sparse::Network& network);
  // The whole vector, count elements, by MPI's own reduction, in place.
  Status dense(void* vector, std::size_t count, MPI_Datatype datatype, MPI_Op op);
  // Counts what a reduction with a tally of its own did meanwhile.
  void book(const sparse::Traffic& before, const sparse::Traffic& after);
  // Books what was done; gives the status back.
  Status end(Status status);

  PatientComm& comm() { return *comm_; }
  sparse::Workspace& memory() { return state_ ? sparse_state(*state_).memory : own_memory_; }
  sparse::Traffic& traffic() { return traffic_; }
  CommState* state() { return state_.get(); }  // null on one rank
  std::uint64_t id() const { return id_; }     // of the call, equal on all ranks
  int first_tag() const { return first_tag_; }
  static constexpr int kTags = CallOrder::kTagsPerWindow - 1;  // the last is the agreement's

 private:
  Status enter(std::uint32_t sequence);
  Status meet(const Signature& signature, double proposal);
  Status reduce_piece(const Call& call);
  void leave();

  std::shared_ptr<CommState> state_;
  std::optional<Turn> turn_;
  std::optional<PatientComm> comm_;
  sparse::Workspace own_memory_;  // of one rank alone, and for measuring
  sparse::Traffic traffic_;
  QueuePosition position_;
  double timeout_s_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint64_t id_ = 0;
  int first_tag_ = 0;
  bool entered_ = false;
};

}  // namespace mq
