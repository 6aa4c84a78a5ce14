// Events of the processor and of the kernel in calls, counted by PAPI (--counters): instructions, cycles,
// cache misses, page faults. Only the thread that makes the calls is counted. Calls are counted after all
// others, so that no reading is in a time.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/rows.hpp"
#include "mpi_quant/engine/step_watch.hpp"

namespace mq::bench {

// Whether this build can count. PAPI's library itself is opened when it is needed.
bool knows_papi();

// Where events are counted: in whole calls, in their codec steps, and between two readings with nothing
// between.
enum CountedPart : std::size_t { kInCall, kInEncode, kInDecode, kInNothing, kCountedParts };
const char* name(CountedPart part);

// The counters of this rank.
class Counters : private StepWatch {
 public:
  // events: names as papi_avail and papi_native_avail print them.
  explicit Counters(std::vector<std::string> events);
  const std::vector<std::string>& events() const { return events_; }
  std::string uncounted() const;  // the events that cannot be counted here, each with its reason

  // Not all events can be counted at once. Each group is counted in calls of its own.
  std::size_t groups() const { return groups_.size(); }
  // Counts a group from now on: in whole calls, or in their steps. Without such a group it counts nothing.
  void start(std::size_t group, bool in_steps);
  void stop();
  void call_begins() noexcept {
    if (counts_calls_) read(before_);
  }
  void call_ends() noexcept {
    if (counts_calls_) add(kInCall);
  }

  // In all since clear(); NaN if the event was not counted.
  double count(std::size_t event, CountedPart part) const { return sums_[event][part]; }
  double times(CountedPart part) const { return times_[part]; }  // that it began, while one group was counted
  void clear();

 private:
  struct Group {
    int set;
    std::vector<std::size_t> events;
  };
  void make_groups();
  void step_begins() noexcept override { read(before_); }
  void step_ends(bool encodes) noexcept override { add(encodes ? kInEncode : kInDecode); }
  void read(std::vector<long long>& values) noexcept;
  void add(CountedPart part) noexcept;

  std::vector<std::string> events_, reasons_;  // reasons_: "" if the event can be counted
  std::vector<Group> groups_;
  Group* counted_ = nullptr;  // between start() and stop()
  bool counts_calls_ = false;
  std::vector<long long> before_, after_;
  std::vector<std::array<double, kCountedParts>> sums_;
  std::array<double, kCountedParts> times_{};
};

// Which events some rank cannot count, and why; "" if there are none. Collective; complete on rank 0.
std::string uncounted(const Counters& counters, MPI_Comm comm);

struct EventCounts {
  std::int32_t calls = 0;        // that were made
  std::vector<CounterRow> rows;  // on rank 0; point_id is not set
};
// Makes calls and counts in them; in their steps, too, if they have steps on the processor. sums: that one
// call makes. Collective over comm.
EventCounts count_events(Counters& counters, bool has_steps, int sums, MPI_Comm comm,
                         const std::function<void(std::size_t)>& call);

}  // namespace mq::bench
