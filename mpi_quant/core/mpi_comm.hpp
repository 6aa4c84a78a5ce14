// A Comm that uses MPI's point-to-point messages, on a private communicator that returns errors.
#pragma once

#include <mpi.h>
#include <sched.h>
#include <time.h>

#include <cstdint>
#include <string>

#include "mpi_quant/base/comm.hpp"

namespace mq {

// "PMPI_Isend: <what MPI says>", or ok.
inline Status mpi_status(int code, const char* function) noexcept {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "unknown MPI error";
  int length = 0;
  (void)PMPI_Error_string(code, text, &length);
  return status_of(Code::mpi_failed, [&] { return std::string(function) + ": " + text; });
}

// What a rank does that has waited a little while for a message.
enum class Waiting : std::uint8_t {
  spins,
  yields,  // gives its core away: on a node with more ranks than cores its peers could not run
  sleeps,  // MPIQ_WAIT
};

class MpiComm {
 public:
  struct Request {
    MPI_Request handle = MPI_REQUEST_NULL;
    std::size_t room = 0;  // bytes that a receive has room for
  };

  MpiComm(MPI_Comm comm, Waiting waiting) : comm_(comm), waiting_(waiting) {
    (void)PMPI_Comm_rank(comm, &rank_);
    (void)PMPI_Comm_size(comm, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Messages are far shorter than 2^31 bytes: a frame holds one chunk, see chunk_bytes in layout.hpp.
  Status send(int to, int tag, std::span<const std::byte> out, Request& request) {
    request.room = 0;
    return mpi_status(
        PMPI_Isend(out.data(), static_cast<int>(out.size()), MPI_BYTE, to, tag, comm_, &request.handle),
        "MPI_Isend");
  }
  Status receive(int from, int tag, std::span<std::byte> in, Request& request) {
    request.room = in.size();
    return mpi_status(
        PMPI_Irecv(in.data(), static_cast<int>(in.size()), MPI_BYTE, from, tag, comm_, &request.handle),
        "MPI_Irecv");
  }
  Status test(Request& request, bool& done, std::size_t& received_bytes) {
    int flag = 0, bytes = 0, error_class = MPI_SUCCESS;
    MPI_Status status;
    const int code = PMPI_Test(&request.handle, &flag, &status);
    done = flag != 0 || code != MPI_SUCCESS;
    if (code != MPI_SUCCESS) (void)PMPI_Error_class(code, &error_class);
    if (error_class == MPI_ERR_TRUNCATE) {
      received_bytes = request.room + 1;
      return {};
    }
    MQ_TRY(mpi_status(code, "MPI_Test"));
    if (done && request.room > 0) (void)PMPI_Get_count(&status, MPI_BYTE, &bytes);
    received_bytes = static_cast<std::size_t>(bytes);
    return {};
  }
  void idle() {
    if (waiting_ == Waiting::spins || ++idle_calls_ <= kSpins) return;
    constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 50'000};
    if (waiting_ == Waiting::sleeps)
      (void)nanosleep(&kNap, nullptr);
    else
      (void)sched_yield();
  }
  void busy() { idle_calls_ = 0; }
  MPI_Comm handle() const { return comm_; }

 private:
  static constexpr int kSpins = 200;  // some 10 us of MPI_Test: longer than a small message within a node
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  Waiting waiting_ = Waiting::spins;
  int idle_calls_ = 0;
};

static_assert(Comm<MpiComm>);

}  // namespace mq
