#include "mpi_quant/report/gather.hpp"

#include <limits>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/watchdog.hpp"

namespace mq {
namespace {

constexpr const char *kWhy = "to write a report", *kQuestion = "do all ranks have MPIQ_REPORT or MPIQ_MODE?";

double patience_s() {
  constexpr int kDefault_s = 30;
  return 10.0 * (env().ok() && env()->watchdog > 0 ? env()->watchdog : kDefault_s);
}

}  // namespace

// A rank that stops waiting says so in a second collective call, which it does not wait for. A rank that
// comes after that completes the first call, and learns from the second one that nobody is there any more.
Result<bool> all_come(MPI_Comm comm) {
  static int gave_up = 0, any_gave_up = 0;  // MPI may use them after the return
  MPI_Request came = MPI_REQUEST_NULL, told = MPI_REQUEST_NULL;
  MQ_TRY(mpi_status(PMPI_Ibarrier(comm, &came), "MPI_Ibarrier"));
  const Result<bool> all = wait_watched(comm, came, kWhy, kQuestion, patience_s());
  if (!all.ok()) return all.status();
  gave_up = !*all;
  MQ_TRY(mpi_status(PMPI_Iallreduce(&gave_up, &any_gave_up, 1, MPI_INT, MPI_MAX, comm, &told),
                    "MPI_Iallreduce"));
  if (gave_up) return false;
  const Result<bool> heard = wait_watched(comm, told, kWhy, kQuestion, patience_s());
  return heard.ok() ? Result<bool>(*heard && !any_gave_up) : heard;
}

Result<std::vector<std::string>> gather(MPI_Comm comm, const std::string& mine) {
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  MPI_Request request = MPI_REQUEST_NULL;
  MQ_TRY(mpi_status(PMPI_Ibarrier(comm, &request), "MPI_Ibarrier"));
  MQ_TRY(wait_watched(comm, request, kWhy, kQuestion));
  const bool at_root = rank == 0;
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(at_root ? static_cast<std::size_t>(size) : 0), starts(lengths.size());
  MQ_TRY(mpi_status(PMPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, comm), "MPI_Gather"));
  std::size_t total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    starts[i] = static_cast<int>(total);
    total += static_cast<std::size_t>(lengths[i]);
  }
  // MPI's displacements are ints.
  int fits = total <= std::numeric_limits<int>::max();
  MQ_TRY(mpi_status(real_mpi().bcast(&fits, 1, MPI_INT, 0, comm), "MPI_Bcast"));
  if (!fits) return Status{Code::no_memory, "the records of all ranks together are longer than 2 GiB"};
  std::string all(total, '\0');
  MQ_TRY(mpi_status(PMPI_Gatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(),
                                 MPI_CHAR, 0, comm),
                    "MPI_Gatherv"));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    texts.push_back(all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  return texts;
}

}  // namespace mq
