// The MPIQ_Residual_ functions of this library: what a program may do with residuals between its calls. Local
// functions look at the residuals of one rank. Collective ones first agree (collective_check.hpp): all ranks
// learn if one of them fails or if their facts differ. They change nothing before all ranks can.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "kernels/convert.hpp"
#include "kernels/memory.hpp"
#include "mpi_quant.h"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/meeting.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/core/residual_facts.hpp"

namespace mq {
namespace {

using kernels::Element;
using kernels::element_bytes;

Status bad_argument(std::string text) { return {Code::bad_argument, std::move(text)}; }

std::string quoted(std::string_view key) { return "key \"" + std::string(key) + "\""; }

Status check_key(std::string_view key) {
  if (key.size() >= 1 && key.size() <= MPIQ_MAX_KEY) return {};
  return bad_argument(quoted(key) + " is not 1 to " + std::to_string(MPIQ_MAX_KEY) + " characters");
}

Status check_key(const char* key) {
  return key == nullptr ? bad_argument("key is NULL") : check_key(std::string_view(key));
}

Status check_intracommunicator(MPI_Comm comm) {
  int inter = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter"));
  return inter ? bad_argument("comm is an intercommunicator") : Status{};
}

// The residuals of a communicator, locked while this object lives. It is false if the communicator has no
// state, and so no residuals.
class Table {
 public:
  explicit Table(CommState* state) : state_(state) {
    if (state_ != nullptr) lock_ = std::unique_lock(state_->mutex);
  }
  explicit Table(MPI_Comm comm) : Table(find_state(comm)) {}
  explicit operator bool() const { return state_ != nullptr; }
  Residuals* operator->() const { return &state_->residuals; }
  CommState* state() const { return state_; }

 private:
  CommState* state_;
  std::unique_lock<std::mutex> lock_;
};

MPI_Datatype residual_type(const Residuals::Entry& entry) {
  return entry.residual_element() == Element::f64 ? MPI_DOUBLE : MPI_FLOAT;
}

// Calls f with the elements of all arrays of a key.
template <class F>
auto visit(const Residuals::Entry& entry, const F& f) {
  std::byte* const data = entry.buffer.data();  // on the host: call move_to_host first
  if (entry.residual_element() == Element::f64)
    return f(std::span(reinterpret_cast<double*>(data), entry.count * entry.arrays));
  return f(std::span(reinterpret_cast<float*>(data), entry.count * entry.arrays));
}

// How many elements are flushed at once. This bounds the scratch memory of half types, and keeps the counts
// of messages below 2^31.
constexpr std::size_t kPiece = std::size_t{1} << 20;

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
  const std::optional<Element> element = element_of(datatype);
  if (!element) return bad_argument("datatype is none of those that are compressed");
  f.element = *element;
  f.count = static_cast<std::size_t>(count);
  MQ_TRY(prepare_output(f));
  const bool rounds = kernels::compute_element(f.element) != f.element;
  if (rounds && !f.sums.reserve(std::min(f.count, kPiece) * sizeof(float)))
    return {Code::no_memory, "no memory to round the sum"};
  const Table table(comm);
  const bool held = table && table->find(key) != nullptr;
  f.facts = quoted(key) + ", " + std::to_string(count) + " " + std::string(name(f.element)) +
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
  for (std::size_t first = 0; first < f.count; first += kPiece) {
    const std::size_t n = std::min(kPiece, f.count - first);
    std::byte* const residual = entry.buffer.data() + first * residual_bytes;
    std::byte* const output = f.output + first * element_bytes(f.element);
    std::byte* const sums = half ? f.sums.data() : output;
    MQ_TRY(
        mpi_status(PMPI_Reduce(residual, sums, static_cast<int>(n), residual_type(entry), MPI_SUM, 0, comm),
                   "MPI_Reduce"));
    std::memset(residual, 0, n * residual_bytes);
    if (half && rank == 0) half->narrow(sums, output, residual, n);
    MQ_TRY(mpi_status(PMPI_Bcast(output, static_cast<int>(n * element_bytes(f.element)), MPI_BYTE, 0, comm),
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
  const Table table(f.state);
  --f.entry->users;
  if (touched && !status.ok()) table->drop(key);  // part of it may have gone into a sum that nobody got
  return status;
}

Status reset(MPI_Comm comm, const char* key) {
  if (key != nullptr) MQ_TRY(check_key(key));
  const Table residuals(comm);
  if (!residuals) return {};
  MQ_TRY(residuals->idle(key));
  residuals.state()->extension->forget(key);
  if (residuals.state()->mirrors != nullptr) residuals.state()->mirrors->forget(key);
  if (key != nullptr) {
    residuals->drop(key);
    residuals->drop(basis_key(key));
  } else {
    residuals->clear();
  }
  return {};
}

Status scale(MPI_Comm comm, const char* key, double factor) {
  if (key != nullptr) MQ_TRY(check_key(key));
  if (!std::isfinite(factor)) return bad_argument("factor is not finite");
  const Table residuals(comm);
  if (!residuals) return {};
  MQ_TRY(residuals->idle(key));
  const auto asked = [key](const std::string& name) { return key == nullptr || name == key; };
  for (auto& [name, entry] : residuals->entries())
    if (asked(name)) MQ_TRY(entry.move_to_host());
  const auto product = [factor]<class T>(T v) { return static_cast<T>(static_cast<double>(v) * factor); };
  for (const auto& [name, entry] : residuals->entries()) {
    const bool finite = !asked(name) || visit(entry, [&](const auto& values) {
      return std::all_of(values.begin(), values.end(), [&](auto v) { return std::isfinite(product(v)); });
    });
    if (!finite) return bad_argument("factor makes the residual of " + quoted(name) + " infinite");
  }
  for (auto& [name, entry] : residuals->entries()) {
    if (!asked(name)) continue;
    visit(entry,
          [&](const auto& values) { std::transform(values.begin(), values.end(), values.begin(), product); });
    // Another rank may have scaled by another factor. Then their sums of estimates differ.
    if (entry.has_estimates())
      entry.stamp = std::max<std::uint64_t>(1, Hash{}.add(entry.stamp).add(factor).value());
  }
  return {};
}

Status list(MPI_Comm comm, int max, MPIQ_Residual* out, int* n) {
  if (n == nullptr) return bad_argument("n is NULL");
  if (max < 0) return bad_argument("max is negative");
  if (max > 0 && out == nullptr) return bad_argument("list is NULL");
  *n = 0;
  const Table residuals(comm);
  if (!residuals) return {};
  for (const auto& [key, entry] : residuals->entries()) {
    if (is_made_up(key) || (*n)++ >= max) continue;
    MPIQ_Residual& r = *out++;
    r = {};
    key.copy(r.key, MPIQ_MAX_KEY);
    name(entry.element).copy(r.element, sizeof r.element - 1);
    r.count = static_cast<MPI_Count>(entry.count);
    r.datatype = residual_type(entry);
    r.settled = entry.settled;
    r.calls = entry.calls;
    r.in_use = entry.users > 0;
    r.arrays = static_cast<int>(entry.arrays);
    r.stamp = entry.stamp;
    r.since = entry.since;
  }
  return {};
}

Status get(MPI_Comm comm, const char* key, MPI_Count first, MPI_Count count, void* buf) {
  MQ_TRY(check_key(key));
  const Table residuals(comm);
  const Residuals::Entry* const entry = residuals ? residuals->find(key) : nullptr;
  if (entry == nullptr) return bad_argument(quoted(key) + " has no residual");
  MQ_TRY(residuals->idle(key));
  const auto size = static_cast<MPI_Count>(entry->count * entry->arrays);
  if (first < 0 || count < 0 || first > size || count > size - first)
    return bad_argument("elements " + std::to_string(first) + " to " + std::to_string(first) + " + " +
                        std::to_string(count) + " are not in the " + std::to_string(size) + " of " +
                        quoted(key));
  if (count == 0) return {};
  if (buf == nullptr) return bad_argument("buf is NULL");
  const std::size_t bytes = element_bytes(entry->residual_element());
  return entry->fetch(buf, static_cast<std::size_t>(first) * bytes, static_cast<std::size_t>(count) * bytes);
}

std::optional<Element> element_named(std::string_view word) {
  for (const Element e : kernels::kElements)
    if (name(e) == word) return e;
  return {};
}

// Copies one residual of a put into a table, and checks it.
Status stage(const MPIQ_Residual& r, const void* elements, Residuals::Map& staged) {
  const std::string key(text_in(r.key));
  MQ_TRY(check_key(key));
  const std::optional<Element> element = element_named(text_in(r.element));
  if (!element)
    return bad_argument(quoted(key) + ": unknown element type \"" + std::string(text_in(r.element)) + "\"");
  if (r.count < 1)
    return bad_argument(quoted(key) + ": count " + std::to_string(r.count) + " is not positive");
  if (!std::isfinite(r.settled)) return bad_argument(quoted(key) + ": settled is not finite");
  if (elements == nullptr) return bad_argument(quoted(key) + ": the buffer is NULL");
  if (r.arrays < 0 || static_cast<std::size_t>(r.arrays) > kernels::kMaxArrays)
    return bad_argument(quoted(key) + ": " + std::to_string(r.arrays) + " arrays");
  if (r.stamp != 0 && r.arrays < 2) return bad_argument(quoted(key) + ": estimates have at least two arrays");
  Result<Residuals::Entry> entry = Residuals::make(key, static_cast<std::size_t>(r.count), *element,
                                                   static_cast<std::size_t>(arrays_of(r)));
  if (!entry.ok()) return entry.status();
  MQ_TRY(copy_now(entry->buffer.data(), elements, entry->bytes()));
  const bool finite = visit(*entry, [](const auto& values) {
    return std::all_of(values.begin(), values.end(), [](auto v) { return std::isfinite(v); });
  });
  if (!finite) return bad_argument(quoted(key) + ": the residual holds NaN or Inf");
  entry->settled = r.settled;
  entry->calls = r.calls;
  entry->stamp = r.stamp;
  entry->since = r.since;
  entry->used = true;
  if (!staged.emplace(key, std::move(*entry)).second)
    return bad_argument(quoted(key) + " is in the list twice");
  return {};
}

struct Put {
  CommState* state = nullptr;
  Residuals::Map staged;
  std::string facts;
};

// Its first step is collective. So it comes before anything that can fail on one rank alone.
Status prepare(Put& p, MPI_Comm comm, int n, const MPIQ_Residual* residuals, const void* const* buffers) {
  const Result<CommState*> obtained = CommState::obtain(comm, CommState::Initial::environment);
  if (!obtained.ok()) return obtained.status();
  p.state = *obtained;
  if (p.state == nullptr) return bad_argument("MPI is not initialised, or being finalized");
  if (n < 0) return bad_argument("n is negative");
  if (n > 0 && (residuals == nullptr || buffers == nullptr)) return bad_argument("list or buffers is NULL");
  const std::span all(residuals, static_cast<std::size_t>(n));
  p.facts = facts_of(all);
  for (std::size_t i = 0; i < all.size(); ++i) MQ_TRY(stage(all[i], buffers[i], p.staged));
  const Table table(p.state);
  for (const auto& [key, entry] : p.staged) {
    MQ_TRY(table->idle(key.c_str()));
    // The sum of estimates must be the same on all ranks.
    const std::string_view sum(reinterpret_cast<const char*>(entry.buffer.data()) + entry.array_bytes(),
                               entry.has_estimates() ? entry.array_bytes() : 0);
    if (entry.has_estimates())
      p.facts += quoted(key) + ", sum of estimates #" + std::to_string(hash_of(sum)) + '\0';
  }
  return {};
}

Status put(MPI_Comm comm, int n, const MPIQ_Residual* residuals, const void* const* buffers) {
  MQ_TRY(check_intracommunicator(comm));
  Meeting meeting;
  MQ_TRY(meeting.open(comm, "MPIQ_Residual_put", CommState::Initial::environment));
  Put p;
  const Status local_error = guarded_status([&] { return prepare(p, comm, n, residuals, buffers); });
  MQ_TRY(collective_check(comm, local_error, p.facts));
  Table(p.state)->replace(std::move(p.staged));
  return {};
}

// The end of each function. The error, if there is one, begins with the name of the function.
template <class F>
int conclude(MPI_Comm comm, const char* function, const F& f) {
  return raise(comm, guarded_status([&]() -> Status {
                 Status status = f();
                 if (status.ok()) return status;
                 return {status.code(), std::string(function) + ": " + status.text()};
               }));
}

}  // namespace
}  // namespace mq

using namespace mq;

extern "C" {

int MPIQ_Residual_flush(void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm,
                        const char* key) {
  return conclude(comm, "MPIQ_Residual_flush", [&] { return flush(recvbuf, count, datatype, comm, key); });
}

int MPIQ_Residual_reset(MPI_Comm comm, const char* key) {
  return conclude(comm, "MPIQ_Residual_reset", [&] { return reset(comm, key); });
}

int MPIQ_Residual_scale(MPI_Comm comm, const char* key, double factor) {
  return conclude(comm, "MPIQ_Residual_scale", [&] { return scale(comm, key, factor); });
}

int MPIQ_Residual_list(MPI_Comm comm, int max, MPIQ_Residual* residuals, int* n) {
  return conclude(comm, "MPIQ_Residual_list", [&] { return list(comm, max, residuals, n); });
}

int MPIQ_Residual_get(MPI_Comm comm, const char* key, MPI_Count first, MPI_Count count, void* buf) {
  return conclude(comm, "MPIQ_Residual_get", [&] { return get(comm, key, first, count, buf); });
}

int MPIQ_Residual_put(MPI_Comm comm, int n, const MPIQ_Residual* residuals, const void* const* buffers) {
  return conclude(comm, "MPIQ_Residual_put", [&] { return put(comm, n, residuals, buffers); });
}

int MPIQ_Comm_meet(MPI_Comm comm, const char* function) {
  if (function == nullptr) return raise(comm, bad_argument("MPIQ_Comm_meet: function is NULL"));
  return conclude(comm, function, [&]() -> Status {
    MQ_TRY(check_intracommunicator(comm));
    return Meeting().open(comm, function, CommState::Initial::environment);
  });
}

int MPIQ_Comm_raise(MPI_Comm comm, const char* text) {
  return raise(comm, guarded_status([&]() -> Status {
                 return {Code::extension, text ? text : "an extension gave no reason"};
               }));
}

}  // extern "C"
