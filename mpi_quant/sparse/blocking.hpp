// One blocking sparse call on its communicator: its position among the calls in flight, the agreement that
// opens it, and the statistics it leaves. The reductions themselves are in sparse_allreduce/.
#pragma once

#include <mpi.h>

#include <memory>
#include <mutex>
#include <optional>

#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/shared_time.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/sparse/state.hpp"
#include "sparse_allreduce/measure.hpp"

namespace mq {

// MPI messages that advance the calls in flight whenever they are idle. Without this, ranks could wait for
// each other: another rank may need this one to complete an older call.
class ProgressComm {
 public:
  using Request = MpiComm::Request;
  explicit ProgressComm(const MpiComm& comm) : comm_(comm) {}
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
static_assert(Comm<ProgressComm>);

// Call begin, agree, the reduction, end; each once, in this order. A communicator of one rank has no state
// and agrees with itself.
class BlockingSparse {
 public:
  BlockingSparse() = default;
  ~BlockingSparse();
  BlockingSparse(const BlockingSparse&) = delete;
  BlockingSparse& operator=(const BlockingSparse&) = delete;

  // Collective at the first use of user_comm. timeout_s is the longest time to wait for other ranks; 0: no
  // limit.
  Status begin(MPI_Comm user_comm, double timeout_s);
  // Takes the memory that network() needs, so that network() cannot fail on one rank only. Throws
  // std::bad_alloc.
  void make_room() {
    if (state_ == nullptr || sparse_state(*state_).network) return;
    (void)own_memory_.take<std::byte>(sparse::kMeasureBytes);
    own_memory_.reset();
  }
  // Waits for all ranks. Returns ok if all signatures are equal and no rank has a local error. `local_error`
  // is this rank's. Of `numbers` each becomes the greatest of all ranks.
  Status agree(Signature signature, const Status& local_error, Maxima& numbers);
  // The network as measured by the first call of this function. Collective; call make_room() before.
  Status network(sparse::Network& network);
  // Reduces the whole vector of `count` elements in place, by MPI's own reduction.
  Status dense(void* vector, std::size_t count, MPI_Datatype datatype, MPI_Op op);
  // Adds the traffic of a reduction that counts its own, from `before` to `after`.
  void add_traffic(const Traffic& before, const Traffic& after);
  // Adds the call to the statistics. Returns `status`.
  Status end(Status status);

  ProgressComm& comm() { return *comm_; }
  sparse::Workspace& memory() { return state_ ? sparse_state(*state_).memory : own_memory_; }
  Traffic& traffic() { return traffic_; }
  CommState* state() { return state_.get(); }  // null on one rank
  std::uint64_t id() const { return id_; }     // of the call; equal on all ranks
  int first_tag() const { return first_tag_; }
  static constexpr int kTags = CallOrder::kTagsPerWindow - 1;  // the last is the agreement's

 private:
  Status enter();
  Status compare_signatures(const Signature& signature, const Maxima& numbers);
  Status reduce_piece(const Call& call);
  void leave();

  const InLibrary in_library_;
  Share share_;
  std::shared_ptr<CommState> state_;
  std::optional<Turn> turn_;
  std::optional<ProgressComm> comm_;
  sparse::Workspace own_memory_;  // for one rank alone, and for measuring
  Traffic traffic_;
  QueuePosition position_;
  double timeout_s_ = 0;
  std::uint64_t id_ = 0;
  int first_tag_ = 0;
};

}  // namespace mq
