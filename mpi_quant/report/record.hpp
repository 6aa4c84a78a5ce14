// What the preload library saw: for each class of calls their number, what became of them and why, and what
// they cost. Each call adds to the table of its thread; the tables are merged and written when MPI is
// finalized (report.hpp). Uses no MPI: handles are integers here, and classes carry names.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/memory/feedback_outcome.hpp"
#include "mpi_quant/plan/collective.hpp"
#include "mpi_quant/policy/reason.hpp"

namespace mq {

std::string_view name(Reason);   // for JSON: "small"
std::string_view words(Reason);  // for tables: "below the floor of 64 KiB"

std::string_view name(FeedbackOutcome);
std::string_view words(FeedbackOutcome);  // the meaning, for people; "" for none

// What a FeedbackOutcome means for the call.
enum class Fate : std::uint8_t {
  none,     // no feedback asked for
  fine,     // nothing could be done better
  waiting,  // without feedback, because it is not sure yet whose residual would be used
  lost,     // without feedback, and the waiting residual is gone
};
Fate fate(FeedbackOutcome);

// A class of calls. It is the same on all ranks of the communicator.
struct ClassId {
  std::string comm;  // name of the communicator, "" if it has none
  int ranks = 0;
  // Names in the MPI library: "MPI_FLOAT", "MPI_SUM". Of another collective than allreduce the operation is
  // "reduce_scatter(MPI_SUM)" or "allgather".
  std::string type, op;
  int log2_bytes = 0;  // vectors of [2^k, 2^(k+1)) bytes; -1: empty vectors
  auto operator<=>(const ClassId&) const = default;
  static void each_field(auto& id, auto& f) {
    f(id.comm);
    f(id.ranks);
    f(id.type);
    f(id.op);
    f(id.log2_bytes);
  }
};

// By the name of the operation.
Collective collective_of(const ClassId& id);

// What one rank saw of a class, or of a call site.
struct Numbers {
  std::array<std::uint64_t, kReasons> calls{};
  std::array<std::uint64_t, kFeedbackOutcomes> feedback{};
  std::uint64_t bytes = 0;             // of the vectors of all calls
  std::uint64_t compressed_bytes = 0;  // the part of them in compressed calls
  std::uint64_t wire_bytes = 0;        // sent for compressed calls
  std::uint64_t overflows = 0;         // finite elements that were too large for the codec
  double seconds = 0;                  // in all calls; the seconds of compressed calls consist of:
  double encode_s = 0, decode_s = 0, wait_s = 0;
  std::uint64_t guarded = 0;                        // calls that were compared with the exact result
  double guard_error_sum = 0, guard_error_max = 0;  // relative L2
  std::string method;  // of the last call that a rule chose a method for; "" if no rule did

  std::uint64_t total_calls() const;
  // If the two methods differ, a lossy one is kept, so that a class with lossy calls is not taken for exact.
  void add(const Numbers& other);
  bool operator==(const Numbers&) const = default;
  static void each_field(auto& n, auto& f) {
    f(n.calls);
    f(n.feedback);
    f(n.bytes);
    f(n.compressed_bytes);
    f(n.wire_bytes);
    f(n.overflows);
    f(n.seconds);
    f(n.encode_s);
    f(n.decode_s);
    f(n.wait_s);
    f(n.guarded);
    f(n.guard_error_sum);
    f(n.guard_error_max);
    f(n.method);
  }
};

// Whether a compressed call of this method gives a result that an exact sum in another order may give.
bool lossless(std::string_view method);

// What one rank saw. It goes to the rank that writes the report as base/pack.hpp packs it.
struct Record {
  std::map<ClassId, Numbers> classes;
  std::map<std::string, Numbers> sites;  // of calls that could be compressed, by call site
  bool operator==(const Record&) const = default;
  static void each_field(auto& record, auto& f) {
    f(record.classes);
    f(record.sites);
  }
};

// How the fast path tells classes apart: by values that never change. One class may have several traits.
struct CallTraits {
  std::uintptr_t comm = 0, datatype = 0, op = 0;
  int log2_bytes = 0;
  int collective = 0;
  bool operator==(const CallTraits&) const = default;
};

// The value of ClassId::log2_bytes for `bytes`.
constexpr int log2_of(std::uint64_t bytes) { return static_cast<int>(std::bit_width(bytes)) - 1; }

// The table of one thread. Never freed: it outlives the thread and is read when MPI is finalized.
class ThreadRecord {
 public:
  // The table of the calling thread; null if there is no memory.
  static ThreadRecord* mine() noexcept;
  // The numbers of a class. identify() makes its ClassId; it is called once for each traits. May throw
  // std::bad_alloc.
  template <class Identify>
  Numbers& of(const CallTraits& traits, const Identify& identify) {
    for (const Known& known : known_)
      if (known.traits == traits) return *known.numbers;
    return remember(traits, identify());
  }
  Numbers& site(const std::string& text) { return record_.sites[text]; }
  const Record& record() const { return record_; }

 private:
  struct Known {
    CallTraits traits;
    Numbers* numbers;
  };
  Numbers& remember(const CallTraits& traits, const ClassId& id);
  Record record_;
  // Kept in the order in which they were met. There are at most kMaxKnown, so that the search stays short in
  // a program that always makes new communicators. Traits that were dropped are identified again.
  std::vector<Known> known_;
  static constexpr std::size_t kMaxKnown = 64;
};

// The merged record of all threads. No thread may be in a call.
Record whole_record();

// Texts of MPI_Pcontrol that the library did not understand, of all threads of a rank.
struct UnknownCommands {
  std::uint64_t commands = 0;
  std::array<char, 64> first{};  // the beginning of the first text; ends with a null character
};

}  // namespace mq
