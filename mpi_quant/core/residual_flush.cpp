// MPIQ_Residual_flush: one dense reduction delivers what waits in the residuals of a key. All ranks first
// agree (collective_check.hpp).

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/convert.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/meeting.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/residual_api.hpp"

namespace mq {
namespace {

using kernels::Element;
using kernels::element_bytes;

constexpr std::size_t kMostFlushed = std::size_t{1} << 58;  // elements
// How many elements are flushed at once. This bounds the scratch memory of half types, and keeps the counts
// of messages below 2^31.
constexpr std::size_t kFlushPiece = std::size_t{1} << 20;

struct Flush {
  std::byte* output = nullptr;  // in host memory: the caller's buffer, or `delivery`
  std::byte* target = nullptr;  // the caller's buffer, if it is on a device
  Buffer delivery;
  std::size_t count = 0;
  Element element{};
  CommState* state = nullptr;
  Residuals::Entry* entry = nullptr;  // in use while flush() runs
  Buffer sums;                        // a piece in float, before it is rounded to a half type
  std::string facts;
};

// MPI delivers to host memory. If the caller's buffer is on a device, the sum needs a buffer on the host.
Status prepare_output(Flush& f) {
  if (f.count == 0) return {};
  const Result<bool> there = is_on_device(f.output);
  if (!there.ok()) return there.status();
  if (!*there) return {};
  if (!f.delivery.reserve(f.count * element_bytes(f.element)))
    return {Code::no_memory, "no memory for the sum"};
  f.target = std::exchange(f.output, f.delivery.data());
  return {};
}

// Checks and allocates everything that can fail on one rank alone.
Status prepare(Flush& f, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm, const char* key) {
  MQ_TRY(check_key(key));
  if (count < 0) return bad_argument("count " + std::to_string(count) + " is negative");
  if (count > 0 && f.output == nullptr) return bad_argument("recvbuf is NULL");
  if (f.output == MPI_IN_PLACE) return bad_argument("recvbuf is MPI_IN_PLACE");
  const std::optional<Reals> reals = reals_of(datatype, Types::derived);
  if (!reals) return bad_argument(std::string("datatype must be ") + kAcceptedTypes);
  f.element = reals->element;
  if (static_cast<std::size_t>(count) > kMostFlushed / reals->each)
    return bad_argument("count " + std::to_string(count) + " is more than 2^58 elements");
  f.count = static_cast<std::size_t>(count) * reals->each;
  MQ_TRY(prepare_output(f));
  const bool rounds = kernels::compute_element(f.element) != f.element;
  if (rounds && !f.sums.reserve(std::min(f.count, kFlushPiece) * sizeof(float)))
    return {Code::no_memory, "no memory to round the sum"};
  const LockedResiduals table(comm);
  const bool held = table && table->find(key) != nullptr;
  f.facts = quoted(key) + ", " + std::to_string(f.count) + " " + std::string(name(f.element)) +
            (held ? ", with a residual" : ", without a residual") + '\0';
  if (!held) return {};
  MQ_TRY(table.state()->broken);
  MQ_TRY(table->idle(key));
  const Result<Residuals::Entry*> known = table->acquire(key, f.count, f.element);
  if (!known.ok()) return known.status();  // the key belongs to another count or type
  if ((*known)->has_estimates())
    return bad_argument(
        quoted(key) +
        " holds estimates (memory=ef21, lazy or 3pc): nothing is left out that could be flushed");
  MQ_TRY((*known)->move_to_host());
  f.state = table.state();
  f.entry = *known;
  ++f.entry->users;
  return {};
}

// Uses a reduction to rank 0 and a broadcast instead of an MPI_Allreduce, because some MPI libraries'
// allreduce does not give all ranks the same bits.
Status deliver(const Flush& f, MPI_Comm comm) {
  int rank = 0;
  MQ_TRY(mpi_status(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
  const Residuals::Entry& entry = *f.entry;
  const std::size_t residual_bytes = element_bytes(entry.residual_element());
  const kernels::ConvertOps* const half = kernels::convert(f.element, env()->isa);
  for (std::size_t first = 0; first < f.count; first += kFlushPiece) {
    const std::size_t n = std::min(kFlushPiece, f.count - first);
    std::byte* const residual = entry.buffer.data() + first * residual_bytes;
    std::byte* const output = f.output + first * element_bytes(f.element);
    std::byte* const sums = half ? f.sums.data() : output;
    MQ_TRY(mpi_status(
        real_mpi().reduce(residual, sums, static_cast<int>(n), residual_type(entry), MPI_SUM, 0, comm),
        "MPI_Reduce"));
    std::memset(residual, 0, n * residual_bytes);
    if (half && rank == 0) half->narrow(sums, output, residual, n);
    MQ_TRY(mpi_status(
        real_mpi().bcast(output, static_cast<int>(n * element_bytes(f.element)), MPI_BYTE, 0, comm),
        "MPI_Bcast"));
  }
  return {};
}

Status run(const Flush& f, const Status& local_error, MPI_Comm comm, bool& touched) {
  MQ_TRY(collective_check(comm, local_error, f.facts));
  touched = f.entry != nullptr;
  const std::size_t bytes = f.count * element_bytes(f.element);
  if (touched)
    MQ_TRY(deliver(f, comm));
  else if (f.count > 0)
    std::memset(f.output, 0, bytes);
  // Do all ranks have the sum? A device may fail at the last moment.
  return collective_check(comm, f.target != nullptr ? copy_now(f.target, f.output, bytes) : Status{}, {});
}

Status flush(void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm, const char* key) {
  MQ_TRY(check_intracommunicator(comm));
  Meeting meeting;
  MQ_TRY(meeting.open(comm, "MPIQ_Residual_flush", CommState::Initial::environment));
  Flush f;
  f.output = static_cast<std::byte*>(recvbuf);
  bool touched = false;
  const Status local_error = guarded_status([&] { return prepare(f, count, datatype, comm, key); });
  Status status = guarded_status([&] { return run(f, local_error, comm, touched); });
  if (f.entry == nullptr) return status;
  const LockedResiduals table(f.state);
  --f.entry->users;
  if (touched && !status.ok()) table->drop(key);  // part of it may have gone into a sum that nobody got
  return status;
}

}  // namespace
}  // namespace mq

extern "C" int MPIQ_Residual_flush(void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm,
                                   const char* key) {
  return mq::conclude(comm, "MPIQ_Residual_flush",
                      [&] { return mq::flush(recvbuf, count, datatype, comm, key); });
}
