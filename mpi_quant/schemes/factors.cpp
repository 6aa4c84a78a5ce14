// MPIQ_Factors_allreduce: the sum over all ranks of U V^T. The ranks first agree on shape and type, then tell each other
// how many columns they have. Then they send the factors to all, or sum the dense matrix by an ordinary call, whichever
// moves fewer bytes.

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/meeting.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/schemes/outer_products.hpp"

namespace mq {
namespace {

constexpr MPI_Count kMaxElements = MPI_Count{1} << 58;

struct Factors {
  const void *u, *v;
  MPI_Count m, n, k;
  void* result;
  MPI_Datatype datatype;
  MPI_Comm comm;
};

Status bad_argument(std::string text) { return {Code::bad_argument, std::move(text)}; }

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
Status check(const Factors& f) {
  for (const auto& [number, name] : {std::pair{f.m, "m"}, {f.n, "n"}, {f.k, "k"}})
    if (number < 0) return bad_argument(std::string(name) + " " + std::to_string(number) + " is negative");
  if (f.datatype != MPI_FLOAT && f.datatype != MPI_DOUBLE)
    return bad_argument("datatype is neither MPI_FLOAT nor MPI_DOUBLE");
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
void multiply(const Factors& f) {
  const auto m = static_cast<std::size_t>(f.m), n = static_cast<std::size_t>(f.n);
  const auto column = [&](std::size_t c) {
    return FactorColumn<T>{static_cast<const T*>(f.u) + c * m, static_cast<const T*>(f.v) + c * n};
  };
  sum_outer_products(m, n, static_cast<std::size_t>(f.k), column, static_cast<T*>(f.result));
}

// The columns of all ranks. In a message a column of U is followed by that of V.
struct Gathered {
  std::vector<int> counts, first;  // by rank
  std::vector<std::byte> mine, all;
};

template <class T>
void pack(const Factors& f, std::byte* to) {
  const auto m = static_cast<std::size_t>(f.m), n = static_cast<std::size_t>(f.n);
  for (std::size_t c = 0; c < static_cast<std::size_t>(f.k); ++c, to += (m + n) * sizeof(T)) {
    if (m > 0) std::memcpy(to, static_cast<const T*>(f.u) + c * m, m * sizeof(T));
    if (n > 0) std::memcpy(to + m * sizeof(T), static_cast<const T*>(f.v) + c * n, n * sizeof(T));
  }
}

// Allocates all that the exchange needs.
template <class T>
Status prepare(const Factors& f, const std::vector<std::int64_t>& columns, std::int64_t total, Gathered& g) {
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
Status exchange(const Factors& f, Gathered& g) {
  MPI_Datatype column = MPI_DATATYPE_NULL;
  MQ_TRY(mpi_status(PMPI_Type_contiguous(static_cast<int>(f.m + f.n), f.datatype, &column),
                    "MPI_Type_contiguous"));
  Status status = mpi_status(PMPI_Type_commit(&column), "MPI_Type_commit");
  if (status.ok())
    status = mpi_status(PMPI_Allgatherv(g.mine.data(), static_cast<int>(f.k), column, g.all.data(),
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

// What the ranks do after they have agreed. They send factors only if MPI can count the elements of a column and all
// columns. `dense` is set if the sum of the products is left to be done.
template <class T>
Status run(const Factors& f, const Status& local_error, int size, bool& dense) {
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
  MQ_TRY(mpi_status(PMPI_Allgather(&mine, 1, MPI_INT64_T, columns.data(), 1, MPI_INT64_T, f.comm),
                    "MPI_Allgather"));
  constexpr std::int64_t kMost = INT32_MAX;
  std::int64_t total = 0;
  for (const std::int64_t k : columns) total = k > kMost - total ? kMost + 1 : total + k;
  dense = f.m + f.n > kMost || total > kMost ||
          !factors_are_fewer(static_cast<std::size_t>(f.m), static_cast<std::size_t>(f.n),
                             static_cast<std::size_t>(total));
  if (dense) return {};
  Gathered gathered;
  MQ_TRY(
      collective_check(f.comm, guarded_status([&] { return prepare<T>(f, columns, total, gathered); }), {}));
  return exchange<T>(f, gathered);
}

// The sum of the ranks' products, each in `result`. MPI's own reduction stands in where the ranks run versions of the library
// that cannot read each other's messages.
Status sum_dense(const Factors& f) {
  CallOptions options;
  const Result<Method> raw = parse_method("raw");
  if (!raw.ok()) return raw.status();
  options.method = *raw;
  const Call call{MPI_IN_PLACE, f.result, f.m * f.n, f.datatype, MPI_SUM, f.comm};
  const Outcome outcome = requested_allreduce(call, options);
  if (!outcome.exact) return outcome.status;
  return mpi_status(exact_allreduce(call, element_of(f.datatype)), "MPI_Allreduce");
}

template <class T>
Status factors_allreduce(const Factors& f, const Status& local_error, int size) {
  bool dense = true;
  if (size == 1)
    MQ_TRY(local_error);
  else {
    Meeting meeting;
    MQ_TRY(meeting.open(f.comm, "MPIQ_Factors_allreduce", CommState::Initial::environment));
    MQ_TRY(run<T>(f, local_error, size, dense));
  }
  if (!dense) return {};
  multiply<T>(f);
  return size == 1 || f.m * f.n == 0 ? Status{} : sum_dense(f);
}

Status factors_allreduce(const Factors& f) {
  int inter = 0, size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(f.comm, &inter), "MPI_Comm_test_inter"));
  if (inter) return bad_argument("MPIQ_Factors_allreduce: comm is an intercommunicator");
  MQ_TRY(mpi_status(PMPI_Comm_size(f.comm, &size), "MPI_Comm_size"));
  const Status local_error = check(f);
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
