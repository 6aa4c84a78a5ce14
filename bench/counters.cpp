#include "bench/counters.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "bench/check.hpp"

#ifdef MQ_PAPI_LIBRARY
#  include <papi.h>
#endif

namespace mq::bench {
namespace {

constexpr std::int32_t kCountedCalls = 20;  // of each group of events, in whole calls and in steps

#ifdef MQ_PAPI_LIBRARY
constexpr int kOk = PAPI_OK;
constexpr int kVersion = static_cast<int>(PAPI_VER_CURRENT);

// The functions of PAPI that are used.
struct Papi {
  decltype(&PAPI_library_init) library_init = nullptr;
  decltype(&PAPI_create_eventset) create_eventset = nullptr;
  decltype(&PAPI_add_named_event) add_named_event = nullptr;
  decltype(&PAPI_remove_named_event) remove_named_event = nullptr;
  decltype(&PAPI_start) start = nullptr;
  decltype(&PAPI_read) read = nullptr;
  decltype(&PAPI_stop) stop = nullptr;
  decltype(&PAPI_strerror) strerror = nullptr;
  std::string why_not;  // "" if it can be used

  Papi() {
    const std::string soname =
        fmt::format("libpapi.so.{}.{}", PAPI_VERSION_MAJOR(PAPI_VERSION), PAPI_VERSION_MINOR(PAPI_VERSION));
    void* library = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open
    if (library == nullptr) library = dlopen(MQ_PAPI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why_not = soname + " is not here";
      return;
    }
    const auto find = [library](const char* function, auto& into) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(library, function));
      return into != nullptr;
    };
    if (!find("PAPI_library_init", library_init) || !find("PAPI_create_eventset", create_eventset) ||
        !find("PAPI_add_named_event", add_named_event) ||
        !find("PAPI_remove_named_event", remove_named_event) || !find("PAPI_start", start) ||
        !find("PAPI_read", read) || !find("PAPI_stop", stop) || !find("PAPI_strerror", strerror))
      why_not = soname + " lacks functions";
    else if (library_init(kVersion) != kVersion)
      why_not = soname + " does not start, or is of another version than this build's";
  }

  int create() const {
    int set = PAPI_NULL;
    return create_eventset(&set) == kOk ? set : PAPI_NULL;
  }
  // Adds an event to a set that can then be counted. An error leaves the set as it was.
  int add(int set, const std::string& event) const {
    int error = add_named_event(set, event.c_str());
    if (error != kOk) return error;
    error = start(set);
    if (error == kOk) error = stop(set, nullptr);
    if (error != kOk) (void)remove_named_event(set, event.c_str());
    return error;
  }
};
#else
constexpr int kOk = 0;

struct Papi {
  std::string why_not = "this build has no PAPI: install it, and run cmake again";
  int create() const { return -1; }
  int add(int, const std::string&) const { return -1; }
  int start(int) const { return -1; }
  int read(int, long long*) const { return -1; }
  int stop(int, long long*) const { return -1; }
  const char* strerror(int) const { return ""; }
};
#endif

const Papi& papi() {
  static const Papi functions;
  return functions;
}

}  // namespace

bool knows_papi() {
#ifdef MQ_PAPI_LIBRARY
  return true;
#else
  return false;
#endif
}

const char* name(CountedPart part) {
  static constexpr std::array<const char*, kCountedParts> kNames{"call", "encode", "decode", "empty"};
  return kNames[part];
}

Counters::Counters(std::vector<std::string> events)
    : events_(std::move(events)),
      reasons_(events_.size(), papi().why_not),
      before_(events_.size()),
      after_(events_.size()) {
  if (papi().why_not.empty()) make_groups();
  clear();
}

void Counters::make_groups() {
  for (std::size_t e = 0; e < events_.size(); ++e) {
    if (!groups_.empty() && papi().add(groups_.back().set, events_[e]) == kOk) {
      groups_.back().events.push_back(e);
      continue;
    }
    const int set = papi().create();
    const int error = papi().add(set, events_[e]);
    if (error == kOk)
      groups_.push_back({set, {e}});
    else
      reasons_[e] = papi().strerror(error);
  }
}

std::string Counters::uncounted() const {
  std::string text;
  for (std::size_t e = 0; e < events_.size(); ++e)
    if (!reasons_[e].empty())
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", events_[e], reasons_[e]);
  return text;
}

void Counters::clear() {
  times_.fill(0);
  sums_.assign(events_.size(), {});
  for (std::size_t e = 0; e < events_.size(); ++e)
    if (!reasons_[e].empty()) sums_[e].fill(kUnknown);
}

void Counters::start(std::size_t group, bool in_steps) {
  times_.fill(0);
  if (group >= groups_.size()) return;
  counted_ = &groups_[group];
  if (papi().start(counted_->set) != kOk) {
    for (const std::size_t e : counted_->events) sums_[e].fill(kUnknown);
    counted_ = nullptr;
    return;
  }
  counts_calls_ = !in_steps;
  if (in_steps) step_watch = this;
  for (std::int32_t i = 0; i < kCountedCalls && !in_steps; ++i) {
    read(before_);
    add(kInNothing);
  }
}

void Counters::stop() {
  step_watch = nullptr;
  counts_calls_ = false;
  if (counted_ != nullptr) (void)papi().stop(counted_->set, nullptr);
  counted_ = nullptr;
}

void Counters::read(std::vector<long long>& values) noexcept {
  if (papi().read(counted_->set, values.data()) == kOk) return;
  for (const std::size_t e : counted_->events) sums_[e].fill(kUnknown);
}

void Counters::add(CountedPart part) noexcept {
  read(after_);
  ++times_[part];
  for (std::size_t i = 0; i < counted_->events.size(); ++i)
    sums_[counted_->events[i]][part] += static_cast<double>(after_[i] - before_[i]);
}

std::string uncounted(const Counters& counters, MPI_Comm comm) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  const std::string mine = counters.uncounted();
  const int first = first_no(mine.empty(), comm);
  if (first == size) return "";
  int length = static_cast<int>(mine.size());
  PMPI_Bcast(&length, 1, MPI_INT, first, comm);
  std::string text = mine;
  text.resize(static_cast<std::size_t>(length));
  PMPI_Bcast(text.data(), length, MPI_CHAR, first, comm);
  return fmt::format("rank {} cannot count {}", first, text);
}

EventCounts count_events(Counters& counters, bool has_steps, int sums, MPI_Comm comm,
                         const std::function<void(std::size_t)>& call) {
  int size = 1;
  PMPI_Comm_size(comm, &size);
  // Ranks on different machines may need different numbers of groups.
  int groups = static_cast<int>(counters.groups());
  PMPI_Allreduce(MPI_IN_PLACE, &groups, 1, MPI_INT, MPI_MAX, comm);
  EventCounts made;
  std::array<double, kCountedParts> times{};
  counters.clear();
  for (int group = 0; group < groups; ++group)
    for (const bool in_steps : {false, true}) {
      if (in_steps && !has_steps) continue;
      counters.start(static_cast<std::size_t>(group), in_steps);
      for (std::int32_t i = 0; i < kCountedCalls; ++i) call(static_cast<std::size_t>(i));
      counters.stop();
      made.calls += kCountedCalls;
      for (std::size_t part = 0; part < kCountedParts; ++part)
        times[part] = std::max(times[part], counters.times(static_cast<CountedPart>(part)));
    }
  for (std::size_t e = 0; e < counters.events().size(); ++e)
    for (const CountedPart part : {kInCall, kInEncode, kInDecode, kInNothing}) {
      if (!has_steps && (part == kInEncode || part == kInDecode)) continue;
      const double of = part == kInNothing ? kCountedCalls : static_cast<double>(kCountedCalls) * sums;
      const double mine = counters.count(e, part) / of;
      std::array<double, 2> all{mine, times[part] / of};
      double most = mine;
      PMPI_Allreduce(MPI_IN_PLACE, all.data(), 2, MPI_DOUBLE, MPI_SUM, comm);
      PMPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
      CounterRow row;
      row.event = counters.events()[e];
      row.phase = name(part);
      row.count = all[0] / size;  // NaN if one is
      row.count_max = std::isnan(all[0]) ? kUnknown : most;
      row.times = all[1] / size;
      row.calls = kCountedCalls;
      made.rows.push_back(row);
    }
  return made;
}

}  // namespace mq::bench
