// MPIQ_Factors_allreduce: the sum over all ranks of U V^T. The ranks first agree on shape and type, then tell
// each other how many columns they have. Then they send the factors to all, or sum the dense matrix by an
// ordinary call, whichever moves fewer bytes.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/base/float_mode.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/blocking_calls.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/meeting.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/schemes/outer_products.hpp"

namespace mq {
namespace {

constexpr MPI_Count kMaxElements = MPI_Count{1} << 58;

struct FactorsCall {
  const void *u, *v;
  MPI_Count m, n, k;
  void* result;
  MPI_Datatype datatype;
  MPI_Comm comm;
};

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const std::less<const void*> before;
  const auto* const a_end = static_cast<const std::byte*>(a) + a_bytes;
  const auto* const b_end = static_cast<const std::byte*>(b) + b_bytes;
  return a_bytes > 0 && b_bytes > 0 && before(a, b_end) && before(b, a_end);
}

Status check_buffer(const void* buffer, std::size_t bytes, const char* name) {
  if (bytes == 0) return {};
  if (buffer == nullptr) return bad_argument(std::string(name) + " is NULL");
  if (buffer == MPI_IN_PLACE) return bad_argument(std::string(name) + " is MPI_IN_PLACE");
  const Result<bool> on_device = is_on_device(buffer);
  if (!on_device.ok()) return on_device.status();
  return *on_device ? bad_argument(std::string(name) + " is not in host memory") : Status{};
}

// What one rank can find out alone.
Status check(const FactorsCall& f) {
  for (const auto& [number, name] : {std::pair{f.m, "m"}, {f.n, "n"}, {f.k, "k"}})
    if (number < 0) return bad_argument(std::string(name) + " " + std::to_string(number) + " is negative");
  if (f.datatype != MPI_FLOAT && f.datatype != MPI_DOUBLE)
    return bad_argument("datatype must be MPI_FLOAT or MPI_DOUBLE");
  const auto too_many = [](MPI_Count rows, MPI_Count columns) {
    return rows > kMaxElements || columns > kMaxElements || (rows > 0 && columns > kMaxElements / rows);
  };
  if (too_many(f.m, f.n) || too_many(f.m, f.k) || too_many(f.n, f.k))
    return bad_argument("a matrix has more than 2^58 elements");
  const std::size_t bytes = f.datatype == MPI_FLOAT ? sizeof(float) : sizeof(double);
  const auto size_of = [bytes](MPI_Count a, MPI_Count b) { return static_cast<std::size_t>(a * b) * bytes; };
  MQ_TRY(check_buffer(f.u, size_of(f.m, f.k), "u"));
  MQ_TRY(check_buffer(f.v, size_of(f.n, f.k), "v"));
  MQ_TRY(check_buffer(f.result, size_of(f.m, f.n), "result"));
  if (overlap(f.result, size_of(f.m, f.n), f.u, size_of(f.m, f.k)) ||
      overlap(f.result, size_of(f.m, f.n), f.v, size_of(f.n, f.k)))
    return bad_argument("result overlaps u or v");
  return {};
}

// U V^T of this rank.
template <class T>
void multiply(const FactorsCall& f) {
  const auto m = static_cast<std::size_t>(f.m), n = static_cast<std::size_t>(f.n);
  const auto column = [&](std::size_t c) {
    return FactorColumn<T>{static_cast<const T*>(f.u) + c * m, static_cast<const T*>(f.v) + c * n};
  };
  sum_outer_products(m, n, static_cast<std::size_t>(f.k), column, static_cast<T*>(f.result));
}

// The columns of all ranks. In a message a column of U is followed by the same column of V.
struct Gathered {
  std::vector<int> counts, first;  // by rank
  std::vector<std::byte> mine, all;
};

template <class T>
void pack(const FactorsCall& f, std::byte* to) {
  const auto m = static_cast<std::size_t>(f.m), n = static_cast<std::size_t>(f.n);
  for (std::size_t c = 0; c < static_cast<std::size_t>(f.k); ++c, to += (m + n) * sizeof(T)) {
    if (m > 0) std::memcpy(to, static_cast<const T*>(f.u) + c * m, m * sizeof(T));
    if (n > 0) std::memcpy(to + m * sizeof(T), static_cast<const T*>(f.v) + c * n, n * sizeof(T));
  }
}

// Allocates all that the exchange needs.
template <class T>
Status prepare(const FactorsCall& f, const std::vector<std::int64_t>& columns, std::int64_t total,
               Gathered& g) {
  for (const std::int64_t k : columns) {
    g.first.push_back(g.first.empty() ? 0 : g.first.back() + g.counts.back());
    g.counts.push_back(static_cast<int>(k));
  }
  const std::size_t column_bytes = static_cast<std::size_t>(f.m + f.n) * sizeof(T);
  g.mine.resize(static_cast<std::size_t>(f.k) * column_bytes);
  g.all.resize(static_cast<std::size_t>(total) * column_bytes);
  pack<T>(f, g.mine.data());
  return {};
}

template <class T>
Status exchange(const FactorsCall& f, Gathered& g) {
  MPI_Datatype column = MPI_DATATYPE_NULL;
  MQ_TRY(mpi_status(PMPI_Type_contiguous(static_cast<int>(f.m + f.n), f.datatype, &column),
                    "MPI_Type_contiguous"));
  Status status = mpi_status(PMPI_Type_commit(&column), "MPI_Type_commit");
  if (status.ok())
    status = mpi_status(real_mpi().allgatherv(g.mine.data(), static_cast<int>(f.k), column, g.all.data(),
                                              g.counts.data(), g.first.data(), column, f.comm),
                        "MPI_Allgatherv");
  (void)PMPI_Type_free(&column);
  MQ_TRY(status);
  const auto m = static_cast<std::size_t>(f.m), n = static_cast<std::size_t>(f.n);
  const T* const all = reinterpret_cast<const T*>(g.all.data());
  const auto column_of = [&](std::size_t c) {
    const T* const u = all + c * (m + n);
    return FactorColumn<T>{u, u + m};
  };
  sum_outer_products(m, n, g.all.size() / sizeof(T) / (m + n), column_of, static_cast<T*>(f.result));
  return {};
}

// What the ranks do after they have agreed. They send factors only if MPI can count the elements of a column
// and all columns. `dense` is set if the sum of the products is left to be done. gathered: the columns that
// were sent.
template <class T>
Status run(const FactorsCall& f, const Status& local_error, int size, bool& dense, std::int64_t& gathered) {
  std::vector<std::int64_t> columns;
  std::string facts;
  const Status no_memory = guarded_status([&] {
    columns.resize(static_cast<std::size_t>(size));
    facts = std::to_string(f.m) + " x " + std::to_string(f.n) + " " +
            (sizeof(T) == sizeof(float) ? "MPI_FLOAT" : "MPI_DOUBLE") + '\0';
    return Status{};
  });
  MQ_TRY(collective_check(f.comm, local_error.ok() ? no_memory : local_error, facts));
  const auto mine = static_cast<std::int64_t>(f.k);
  MQ_TRY(mpi_status(real_mpi().allgather(&mine, 1, MPI_INT64_T, columns.data(), 1, MPI_INT64_T, f.comm),
                    "MPI_Allgather"));
  constexpr std::int64_t kMost = INT32_MAX;
  std::int64_t total = 0;
  for (const std::int64_t k : columns) total = k > kMost - total ? kMost + 1 : total + k;
  dense = f.m + f.n > kMost || total > kMost ||
          !factors_are_fewer(static_cast<std::size_t>(f.m), static_cast<std::size_t>(f.n),
                             static_cast<std::size_t>(total));
  if (dense) return {};
  Gathered all;
  MQ_TRY(collective_check(f.comm, guarded_status([&] { return prepare<T>(f, columns, total, all); }), {}));
  MQ_TRY(exchange<T>(f, all));
  gathered = total;
  return {};
}

// Uses a reduction to rank 0 and a broadcast instead of an MPI_Allreduce, because some MPI libraries'
// allreduce does not give all ranks the same bits.
Status sum_by_mpi(const FactorsCall& f) {
  constexpr MPI_Count kPiece = MPI_Count{1} << 26;  // elements: counts of messages stay below 2^31
  int rank = 0;
  MQ_TRY(mpi_status(PMPI_Comm_rank(f.comm, &rank), "MPI_Comm_rank"));
  const MPI_Count width = f.datatype == MPI_FLOAT ? sizeof(float) : sizeof(double);
  for (MPI_Count first = 0; first < f.m * f.n; first += kPiece) {
    const int n = static_cast<int>(std::min(kPiece, f.m * f.n - first));
    void* const piece = static_cast<std::byte*>(f.result) + first * width;
    MQ_TRY(mpi_status(real_mpi().reduce(rank == 0 ? MPI_IN_PLACE : piece, rank == 0 ? piece : nullptr, n,
                                        f.datatype, MPI_SUM, 0, f.comm),
                      "MPI_Reduce"));
    MQ_TRY(mpi_status(real_mpi().bcast(piece, n, f.datatype, 0, f.comm), "MPI_Bcast"));
  }
  return {};
}

// The sum of the ranks' products, each in `result`: by codec raw, or by MPI where the library has no
// messages. That is so on all ranks or on none.
Status sum_dense(const FactorsCall& f, const Meeting& meeting) {
  CommState* const state = meeting.state();
  bool has_messages = false;
  if (state != nullptr && state->stats.exact_mode != MPIQ_EXACT_VERSION) {
    const std::scoped_lock lock(state->mutex);
    const Result<bool> active = activate(*state, f.comm, Use::all);
    if (!active.ok()) return active.status();
    has_messages = *active;
  }
  if (!has_messages) return sum_by_mpi(f);
  Method raw;
  raw.codec = &raw_codec();
  return run_part(*state, meeting.turn(), {MPI_IN_PLACE, f.result, f.m * f.n, f.datatype, MPI_SUM, f.comm},
                  raw)
      .status;
}

// Counts a call that began. gathered: columns of all ranks that were sent as factors.
template <class T>
void count(CommState* state, const FactorsCall& f, std::int64_t gathered, int size, const Status& status) {
  if (state == nullptr) return;
  const std::scoped_lock lock(state->mutex);
  MPIQ_Stats& stats = state->stats;
  ++stats.scheme_calls;
  stats.failed_calls += !status.ok();
  if (gathered == 0) return;
  const auto bytes = [&](std::int64_t columns) {
    return static_cast<std::uint64_t>(columns * (f.m + f.n)) * sizeof(T);
  };
  stats.wire_bytes_sent += bytes(f.k) * static_cast<std::uint64_t>(size - 1);
  stats.wire_bytes_received += bytes(gathered - f.k);
  stats.messages_sent += static_cast<std::uint64_t>(size - 1);
}

template <class T>
Status factors_allreduce(const FactorsCall& f, const Status& local_error, int size) {
  if (size == 1) {
    MQ_TRY(local_error);
    multiply<T>(f);
    return {};
  }
  Meeting meeting;
  MQ_TRY(meeting.open(f.comm, "MPIQ_Factors_allreduce", CommState::Initial::environment));
  bool dense = false;
  std::int64_t gathered = 0;
  Status status = run<T>(f, local_error, size, dense, gathered);
  if (dense) {
    multiply<T>(f);
    if (f.m * f.n > 0) status = sum_dense(f, meeting);
  }
  count<T>(meeting.state(), f, gathered, size, status);
  return status;
}

Status factors_allreduce(const FactorsCall& f) {
  int inter = 0, size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(f.comm, &inter), "MPI_Comm_test_inter"));
  if (inter) return bad_argument("MPIQ_Factors_allreduce: comm is an intercommunicator");
  MQ_TRY(mpi_status(PMPI_Comm_size(f.comm, &size), "MPI_Comm_size"));
  const Status local_error = check(f);
  const DefaultFloats mode;
  return f.datatype == MPI_FLOAT ? factors_allreduce<float>(f, local_error, size)
                                 : factors_allreduce<double>(f, local_error, size);
}

}  // namespace
}  // namespace mq

using namespace mq;

int MPIQ_Factors_allreduce(const void* u, const void* v, MPI_Count m, MPI_Count n, MPI_Count k, void* result,
                           MPI_Datatype datatype, MPI_Comm comm) {
  return raise(comm, guarded_status([&] {
                 return factors_allreduce({u, v, m, n, k, result, datatype, comm});
               }));
}
