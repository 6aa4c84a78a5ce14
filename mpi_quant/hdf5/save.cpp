// MPIQ_Residual_save. Rank 0 writes what it gets from all ranks, piece by piece.
//
// The schedule has one message to rank 0 for each residual, each of its arrays, each rank and each piece. It
// depends only on what the ranks have agreed on. A rank that fails keeps to the schedule and says so at the
// end, so that nobody waits for it.

#include <optional>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/residual_facts.hpp"
#include "mpi_quant/hdf5/file.hpp"
#include "mpi_quant/hdf5/team.hpp"

namespace mq {
namespace {

struct Save {
  MPI_Comm user_comm = MPI_COMM_NULL;
  Team team;
  std::vector<MPIQ_Residual> residuals;
  std::vector<double> piece;
  std::optional<h5::Writer> writer;  // on rank 0
};

// Throws an error of this rank alone.
void prepare(Save& s, const char* path, std::string& facts) {
  if (path == nullptr || *path == '\0') throw h5::Error("path is NULL or empty");
  facts = std::string("path ") + path + '\0';
  int n = 0;
  if (MPIQ_Residual_list(s.user_comm, 0, nullptr, &n) != MPI_SUCCESS) throw h5::Error("no list of residuals");
  s.residuals.resize(static_cast<std::size_t>(n), MPIQ_RESIDUAL_INIT);
  if (MPIQ_Residual_list(s.user_comm, n, s.residuals.data(), &n) != MPI_SUCCESS)
    throw h5::Error("no list of residuals");
  for (const MPIQ_Residual& r : s.residuals)
    if (r.in_use) throw h5::Error("key \"" + std::string(r.key) + "\" is in use by a call in flight");
  facts += facts_of(s.residuals);
  s.piece.resize(static_cast<std::size_t>(h5::kMaxPiece));
}

// An error of MPI ends it at once. After any other error this rank keeps to the schedule.
Status collect(Save& s, Status& local_error) {
  const Team& team = s.team;
  for (std::size_t i = 0; i < s.residuals.size(); ++i) {
    const MPIQ_Residual& r = s.residuals[i];
    for (int row = 0; row < arrays_of(r) * team.size(); ++row) {
      const int array = row / team.size(), rank = row % team.size();
      Status moved;
      h5::for_each_piece(r.count, [&](MPI_Count first, MPI_Count n) {
        if (!moved.ok()) return;
        if (rank == team.rank() && local_error.ok() &&
            MPIQ_Residual_get(s.user_comm, r.key, array * r.count + first, n, s.piece.data()) != MPI_SUCCESS)
          local_error = {Code::extension, "a residual cannot be read"};
        moved = team.move(rank, 0, s.piece.data(), n, r.datatype);
        if (team.rank() == 0 && local_error.ok() && moved.ok())
          local_error = attempt([&] { s.writer->write(i, array, rank, first, n, s.piece.data()); });
      });
      MQ_TRY(moved);
    }
  }
  return {};
}

Status save(MPI_Comm comm, const char* path) {
  Save s;
  s.user_comm = comm;
  MQ_TRY(s.team.gather(comm));
  std::string facts;
  Status local_error = attempt([&] { prepare(s, path, facts); });
  MQ_TRY(collective_check(s.team.comm(), local_error, facts));
  if (s.team.rank() == 0) local_error = attempt([&] { s.writer.emplace(path, s.team.size(), s.residuals); });
  MQ_TRY(collective_check(s.team.comm(), local_error, {}));
  MQ_TRY(collect(s, local_error));
  MQ_TRY(collective_check(s.team.comm(), local_error, {}));
  if (s.team.rank() == 0) local_error = attempt([&] { s.writer->commit(); });
  return collective_check(s.team.comm(), local_error, {});
}

}  // namespace
}  // namespace mq

int MPIQ_Residual_save(MPI_Comm comm, const char* path) {
  const int met = MPIQ_Comm_meet(comm, "MPIQ_Residual_save");
  return met != MPI_SUCCESS ? met : mq::conclude(comm, "MPIQ_Residual_save", mq::save(comm, path));
}
