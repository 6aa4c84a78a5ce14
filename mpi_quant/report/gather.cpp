// Rank r says hello to rank 0, which says go once it has heard of all or has waited for long enough. Hellos
// and goes are so short that sending them waits for nobody, and a receive can be taken back.

#include "mpi_quant/report/gather.hpp"

#include <sched.h>

#include <limits>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/mpi_comm.hpp"
#include "mpi_quant/execute.hpp"

namespace mq {
namespace {

enum Tag { kHello = kGatherTag, kGo, kText };

// Receives of one int from each of some ranks.
class Receives {
 public:
  Status post(MPI_Comm comm, int rank, int tag) {
    value_.push_back(0);
    request_.push_back(MPI_REQUEST_NULL);
    rank_.push_back(rank);
    tag_ = tag;
    comm_ = comm;
    return {};
  }
  // Posts all, waits until all are done or the time is over, and takes the others back.
  Status wait(double seconds) {
    for (std::size_t i = 0; i < rank_.size(); ++i)
      MQ_TRY(
          mpi_status(PMPI_Irecv(&value_[i], 1, MPI_INT, rank_[i], tag_, comm_, &request_[i]), "MPI_Irecv"));
    const double end = now_s() + seconds;
    int all = 0;
    while (!all && now_s() < end) {
      MQ_TRY(mpi_status(
          PMPI_Testall(static_cast<int>(request_.size()), request_.data(), &all, MPI_STATUSES_IGNORE),
          "MPI_Testall"));
      sched_yield();
    }
    came_.assign(rank_.size(), true);
    for (std::size_t i = 0; !all && i < rank_.size(); ++i) MQ_TRY(take_back(i));
    return {};
  }
  bool came(std::size_t i) const { return came_[i]; }
  int value(std::size_t i) const { return value_[i]; }

 private:
  Status take_back(std::size_t i) {
    int done = 0, cancelled = 0;
    MQ_TRY(mpi_status(PMPI_Test(&request_[i], &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done) return {};
    MPI_Status status;
    MQ_TRY(mpi_status(PMPI_Cancel(&request_[i]), "MPI_Cancel"));
    MQ_TRY(mpi_status(PMPI_Wait(&request_[i], &status), "MPI_Wait"));
    MQ_TRY(mpi_status(PMPI_Test_cancelled(&status, &cancelled), "MPI_Test_cancelled"));
    came_[i] = !cancelled;
    return {};
  }

  std::vector<int> value_, rank_;
  std::vector<MPI_Request> request_;
  std::vector<bool> came_;
  int tag_ = 0;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

double patience() {
  const int seconds = env().ok() ? env()->watchdog : 0;
  return seconds > 0 ? seconds : std::numeric_limits<double>::infinity();
}

Status send_int(MPI_Comm comm, int to, int tag, int value) {
  return mpi_status(PMPI_Send(&value, 1, MPI_INT, to, tag, comm), "MPI_Send");
}

Result<Gathered> at_root(MPI_Comm comm, int size, const std::string& mine) {
  Receives hellos;
  for (int r = 1; r < size; ++r) MQ_TRY(hellos.post(comm, r, kHello));
  MQ_TRY(hellos.wait(patience()));
  Gathered all{{mine}, 1, false};
  for (int r = 1; r < size; ++r) all.came += hellos.came(static_cast<std::size_t>(r - 1));
  all.complete = all.came == size;
  for (int r = 1; r < size; ++r)
    if (hellos.came(static_cast<std::size_t>(r - 1))) MQ_TRY(send_int(comm, r, kGo, all.complete));
  for (int r = 1; r < size; ++r) {
    const auto i = static_cast<std::size_t>(r - 1);
    std::string& text = all.texts.emplace_back();
    if (!hellos.came(i)) continue;
    text.resize(static_cast<std::size_t>(hellos.value(i)));
    MQ_TRY(mpi_status(PMPI_Recv(text.data(), hellos.value(i), MPI_CHAR, r, kText, comm, MPI_STATUS_IGNORE),
                      "MPI_Recv"));
  }
  return all;
}

Result<Gathered> elsewhere(MPI_Comm comm, int size, const std::string& mine) {
  const int length = static_cast<int>(mine.size());
  MQ_TRY(send_int(comm, 0, kHello, length));
  Receives go;
  MQ_TRY(go.post(comm, 0, kGo));
  MQ_TRY(go.wait(2 * patience()));  // rank 0 waits for the slowest first
  if (!go.came(0)) return Gathered{{mine}, 1, false};
  MQ_TRY(mpi_status(PMPI_Send(mine.data(), length, MPI_CHAR, 0, kText, comm), "MPI_Send"));
  return Gathered{{}, size, go.value(0) != 0};
}

}  // namespace

Result<Gathered> gather(MPI_Comm comm, const std::string& mine) {
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  return rank == 0 ? at_root(comm, size, mine) : elsewhere(comm, size, mine);
}

}  // namespace mq
