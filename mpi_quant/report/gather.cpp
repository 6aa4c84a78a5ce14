#include "mpi_quant/report/gather.hpp"

#include <limits>

#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/watchdog.hpp"

namespace mq {

Result<std::vector<std::string>> gather(MPI_Comm comm, const std::string& mine) {
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  MPI_Request request = MPI_REQUEST_NULL;
  MQ_TRY(mpi_status(PMPI_Ibarrier(comm, &request), "MPI_Ibarrier"));
  MQ_TRY(wait_watched(comm, request, "to write a report", "do all ranks have MPIQ_REPORT or MPIQ_MODE?"));
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
