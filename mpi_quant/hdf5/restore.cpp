// MPIQ_Residual_restore. Rank 0 reads the file and sends every rank its residuals, piece by piece. When all
// of them have arrived everywhere, MPIQ_Residual_put gives them to the library, all or none.
//
// As in save.cpp, the schedule depends only on what the ranks have agreed on. For each residual, each of
// its arrays and each piece there is one message for each old rank o, to rank o mod p. A rank adds up what it
// gets. If there are as many ranks as before, that is its own piece. The sum of estimates
// (MPIQ_Residual::stamp) is the same on all ranks: all get the sum of old rank 0.

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/hdf5/file.hpp"
#include "mpi_quant/hdf5/team.hpp"

namespace mq {
namespace {

struct Restore {
  Team team;
  std::optional<h5::Reader> reader;  // on rank 0
  int old_ranks = 0;
  std::vector<MPIQ_Residual> residuals;
  std::vector<std::vector<std::byte>> values;  // this rank's values of each residual
  std::vector<const void*> buffers;            // pointers to them
  std::vector<double> piece, sum;
};

// Rank 0 tells the others what is in the file.
Status share_contents(Restore& r, Status& local_error) {
  int numbers[]{r.old_ranks, static_cast<int>(r.residuals.size())};
  MQ_TRY(mpi_status(real_mpi().bcast(numbers, 2, MPI_INT, 0, r.team.comm()), "MPI_Bcast"));
  r.old_ranks = numbers[0];
  local_error = attempt([&] { r.residuals.resize(static_cast<std::size_t>(numbers[1])); });
  MQ_TRY(collective_check(r.team.comm(), local_error, {}));
  for (MPIQ_Residual& residual : r.residuals)
    MQ_TRY(mpi_status(real_mpi().bcast(&residual, sizeof residual, MPI_BYTE, 0, r.team.comm()), "MPI_Bcast"));
  local_error = attempt([&] {
    for (MPIQ_Residual& residual : r.residuals) {
      residual.datatype = h5::residual_type(residual);  // the handle may differ between ranks
      const auto count = static_cast<std::size_t>(residual.count);
      r.buffers.push_back(
          r.values
              .emplace_back(count * static_cast<std::size_t>(arrays_of(residual)) * h5::value_bytes(residual))
              .data());
    }
    r.piece.resize(static_cast<std::size_t>(h5::kMaxPiece));
    r.sum.resize(static_cast<std::size_t>(h5::kMaxPiece));
  });
  return collective_check(r.team.comm(), local_error, {});
}

// sum = values, or sum += values.
template <class T>
void add(std::span<double> sum, const void* values, bool first) {
  const auto* const v = static_cast<const T*>(values);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const auto value = static_cast<double>(v[i]);
    sum[i] = first ? value : sum[i] + value;  // not 0 + value, because 0 + -0 is 0
  }
}

// True for an array that all ranks have alike: the second one of estimates.
bool is_shared(const MPIQ_Residual& residual, int array) { return residual.stamp != 0 && array == 1; }

// Moves one piece of one array from the file to its ranks.
Status distribute(Restore& r, std::size_t index, int array, MPI_Count first, MPI_Count n,
                  Status& local_error) {
  const Team& team = r.team;
  const MPIQ_Residual& residual = r.residuals[index];
  const bool is_double = h5::is_double(residual);
  const std::span sum = std::span(r.sum).first(static_cast<std::size_t>(n));
  if (is_shared(residual, array)) {
    if (team.rank() == 0 && local_error.ok())
      local_error = attempt([&] { r.reader->read(index, array, 0, first, n, r.piece.data()); });
    MQ_TRY(
        mpi_status(real_mpi().bcast(r.piece.data(), static_cast<int>(n), residual.datatype, 0, team.comm()),
                   "MPI_Bcast"));
    std::memcpy(r.values[index].data() +
                    static_cast<std::size_t>(array * residual.count + first) * h5::value_bytes(residual),
                r.piece.data(), static_cast<std::size_t>(n) * h5::value_bytes(residual));
    return {};
  }
  for (int old = 0; old < r.old_ranks; ++old) {
    const int to = old % team.size();
    if (team.rank() == 0 && local_error.ok())
      local_error = attempt([&] { r.reader->read(index, array, old, first, n, r.piece.data()); });
    MQ_TRY(team.move(0, to, r.piece.data(), n, residual.datatype));
    if (team.rank() == to) (is_double ? add<double> : add<float>)(sum, r.piece.data(), old == to);
  }
  if (team.rank() >= r.old_ranks) return {};  // zeros
  std::byte* const values =
      r.values[index].data() +
      static_cast<std::size_t>(array * residual.count + first) * h5::value_bytes(residual);
  if (is_double)
    std::copy(sum.begin(), sum.end(), reinterpret_cast<double*>(values));
  else
    std::transform(sum.begin(), sum.end(), reinterpret_cast<float*>(values),
                   [](double v) { return static_cast<float>(v); });
  return {};
}

Status load(Restore& r, MPI_Comm comm, const char* path) {
  MQ_TRY(r.team.gather(comm));
  std::string facts;
  Status local_error = attempt([&] {
    if (path == nullptr || *path == '\0') throw h5::Error("path is NULL or empty");
    facts = std::string("path ") + path + '\0';
    if (r.team.rank() != 0) return;
    r.reader.emplace(path);
    r.old_ranks = r.reader->ranks();
    r.residuals = r.reader->residuals();
  });
  MQ_TRY(collective_check(r.team.comm(), local_error, facts));
  MQ_TRY(share_contents(r, local_error));
  for (std::size_t i = 0; i < r.residuals.size(); ++i) {
    for (int array = 0; array < arrays_of(r.residuals[i]); ++array) {
      Status distributed;
      h5::for_each_piece(r.residuals[i].count, [&](MPI_Count first, MPI_Count n) {
        if (distributed.ok()) distributed = distribute(r, i, array, first, n, local_error);
      });
      MQ_TRY(distributed);
    }
  }
  return collective_check(r.team.comm(), local_error, {});
}

}  // namespace
}  // namespace mq

int MPIQ_Residual_restore(MPI_Comm comm, const char* path) {
  const int met = MPIQ_Comm_meet(comm, "MPIQ_Residual_restore");
  if (met != MPI_SUCCESS) return met;
  mq::Restore r;
  const mq::Status loaded = mq::load(r, comm, path);
  if (!loaded.ok()) return mq::conclude(comm, "MPIQ_Residual_restore", loaded);
  return MPIQ_Residual_put(comm, static_cast<int>(r.residuals.size()), r.residuals.data(), r.buffers.data());
}
