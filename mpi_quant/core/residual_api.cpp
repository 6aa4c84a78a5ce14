// The MPIQ_Residual_ functions of this library: what a program may do with residuals between its calls. Local
// functions look at the residuals of one rank. Collective ones first agree (collective_check.hpp): all ranks
// learn if one of them fails or if their facts differ. They change nothing before all ranks can. The flush is
// in residual_flush.cpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/memory.hpp"
#include "mpi_quant.h"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/meeting.hpp"
#include "mpi_quant/core/residual_api.hpp"
#include "mpi_quant/core/residual_facts.hpp"
#include "mpi_quant/core/sized.hpp"

namespace mq {
namespace {

using kernels::Element;
using kernels::element_bytes;

// Returns an error if a call in flight uses what is kept for a key of the user. key null: for any key.
Status check_unused(const LockedResiduals& residuals, const char* key) {
  MQ_TRY(residuals->idle(key));
  if (key == nullptr) return {};
  MQ_TRY(residuals->idle(gather_key(key).c_str()));
  return residuals->idle(mirror_key(key).c_str());
}

Status reset(MPI_Comm comm, const char* key) {
  if (key != nullptr) MQ_TRY(check_key(key));
  const LockedResiduals residuals(comm);
  if (!residuals) return {};
  MQ_TRY(check_unused(residuals, key));
  for (const auto& extension : residuals.state()->extensions) extension->forget(key);
  if (key != nullptr) {
    residuals->drop(key);
    residuals->drop(basis_key(key));
    residuals->drop(gather_key(key));
    residuals->drop(mirror_key(key));
  } else {
    residuals->clear();
  }
  return {};
}

Status scale(MPI_Comm comm, const char* key, double factor) {
  if (key != nullptr) MQ_TRY(check_key(key));
  if (!std::isfinite(factor)) return bad_argument("factor is not finite");
  const LockedResiduals residuals(comm);
  if (!residuals) return {};
  MQ_TRY(check_unused(residuals, key));
  const auto asked = [key](const std::string& name) {
    return key == nullptr || name == key || name == gather_key(key) || name == mirror_key(key);
  };
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
      entry.version = version_of(Hash{}.add(entry.version).add(factor).value(), form_of(entry.version));
  }
  return {};
}

// The size of the first element holds for the whole list: it says where the next one begins.
Status check_list(const MPIQ_Residual* list) {
  constexpr std::size_t kFirst = offsetof(MPIQ_Residual, since) + sizeof(std::uint64_t);
  return check_size<MPIQ_Residual>(list->size, kFirst, "MPIQ_Residual", "MPIQ_RESIDUAL_INIT");
}

Status list(MPI_Comm comm, int max, MPIQ_Residual* out, int* n) {
  if (n == nullptr) return bad_argument("n is NULL");
  if (max < 0) return bad_argument("max is negative");
  if (max > 0 && out == nullptr) return bad_argument("list is NULL");
  if (max > 0) MQ_TRY(check_list(out));
  const std::uint64_t size = max > 0 ? out->size : 0;
  auto* next = reinterpret_cast<std::byte*>(out);
  *n = 0;
  const LockedResiduals residuals(comm);
  if (!residuals) return {};
  for (const auto& [key, entry] : residuals->entries()) {
    if (is_made_up(key) || (*n)++ >= max) continue;
    MPIQ_Residual r{};
    key.copy(r.key, MPIQ_MAX_KEY);
    name(entry.element).copy(r.element, sizeof r.element - 1);
    r.count = static_cast<MPI_Count>(entry.count);
    r.datatype = residual_type(entry);
    r.settled = entry.settled;
    r.calls = entry.calls;
    r.in_use = entry.users > 0;
    r.arrays = static_cast<int>(entry.arrays);
    r.stamp = entry.version;
    r.since = entry.calls_since_exact;
    write_sized(next, size, r);
    next += size;
  }
  return {};
}

Status get(MPI_Comm comm, const char* key, MPI_Count first, MPI_Count count, void* buf) {
  MQ_TRY(check_key(key));
  const LockedResiduals residuals(comm);
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
  if (r.stamp != 0 && form_of(r.stamp) == 0) return bad_argument(quoted(key) + ": impossible stamp");
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
  entry->version = r.stamp;
  entry->calls_since_exact = r.since;
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
  if (n > 0) MQ_TRY(check_list(residuals));
  std::vector<MPIQ_Residual> all;
  const auto* next = reinterpret_cast<const std::byte*>(residuals);
  for (int i = 0; i < n; ++i, next += residuals->size)
    all.push_back(read_sized<MPIQ_Residual>(next, residuals->size));
  p.facts = facts_of(all);
  for (std::size_t i = 0; i < all.size(); ++i) MQ_TRY(stage(all[i], buffers[i], p.staged));
  const LockedResiduals table(p.state);
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
  LockedResiduals(p.state)->replace(std::move(p.staged));
  return {};
}

}  // namespace
}  // namespace mq

using namespace mq;

extern "C" {

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
