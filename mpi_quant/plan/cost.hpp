// What a call costs: the one model of time. The advisor and choose_plan's constants use it; `mpiq-simulate
// --model` asks it and answers in JSON. mpiq-simulate also runs the engine itself, and `scripts/simulate
// --model` says how far off the model is.
//
// The network is modelled as in LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995): a message costs its
// sender and its receiver an overhead of their processor; its bytes pass the sender's port one after the
// other; its last byte arrives a latency later. So the latencies of a round's messages overlap, and their
// overheads do not. The model walks through the steps of one rank for one segment, and takes it that all
// others do the same at the same time: what this rank receives in an exchange was sent when this rank sent in
// it. A call of several segments takes the time of the first, and for each of the others what the processor
// or the port needs, whichever is more; but no less than its segments in flight allow.
//
// What it leaves out: the memory of a node, a port that ranks share, ranks that wait for a rank with more
// work, and what MPI itself does to messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mpi_quant/plan/collective.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

// What is paid for. overhead: each message sent or received. byte: of a port. copy: each byte that the
// processor copies into or out of the network. encode, decode: elements. memory: each element that comes from
// memory or goes back. step: each encode and decode.
enum class Term : std::uint8_t { latency, overhead, byte, copy, encode, decode, memory, step };
inline constexpr std::array<std::string_view, 8> kTermNames{"latency", "overhead", "byte",   "copy",
                                                            "encode",  "decode",   "memory", "step"};
// A number for each term: how many there are, or the seconds of one, which are not negative.
struct PerTerm {
  std::array<double, kTermNames.size()> of{};
  double& operator[](Term term) { return of[static_cast<std::size_t>(term)]; }
  double operator[](Term term) const { return of[static_cast<std::size_t>(term)]; }
};
using Amounts = PerTerm;
using Prices = PerTerm;

// A time, and what it is made of: seconds is the sum of amounts times prices. These are the amounts on the
// longest chain of things that wait for each other, so a small change of prices changes the time by the
// amounts times the change.
struct Cost {
  Amounts amounts{};
  double seconds = 0;
  void add(Term term, double amount, const Prices& prices) {
    amounts[term] += amount;
    seconds += amount * prices[term];
  }
  Cost& operator+=(const Cost& other);
  Cost times(double factor) const;
};
inline const Cost& longer(const Cost& a, const Cost& b) { return a.seconds < b.seconds ? b : a; }

// A call, as far as its time depends on it.
struct CallShape {
  Ranks ranks;  // whatever rank it names. A size of 1 counts as 2
  std::size_t count = 0, element_bytes = 4;
  std::size_t block = 1;  // of the codec
  bool whole = false;     // kernels::Codec::whole
  double wire_bytes = 4;  // of an encoded element
};

// Agreement included.
Cost cost_of(const PlanRow& plan, const CallShape& call, const Prices& prices);
// By the plan of the collective, where the method names none. count: of all parts. The model has no port that
// receives, so a reduction to a root is taken to need as long as a broadcast backwards.
Cost cost_of(Collective collective, const CallShape& call, const Prices& prices);
Cost agreement_cost(int ranks, const Prices& prices);
// MPI's own reduction: recursive doubling (Thakur, Rabenseifner and Gropp 2005), halving and doubling
// (Rabenseifner 2004) or a ring (Patarasuk and Yuan 2009).
enum class DenseAlgorithm : std::uint8_t { recursive_doubling, halving_doubling, ring };
inline constexpr std::array<std::string_view, 3> kDenseNames{"recursive_doubling", "halving_doubling",
                                                             "ring"};
// Of so many bytes by each algorithm, in the order of kDenseNames. Without the time of the additions.
std::array<Cost, kDenseNames.size()> dense_costs(double bytes, int ranks, const Prices& prices);
// By the algorithm that takes least.
Cost dense_cost(double bytes, int ranks, const Prices& prices);
// MPI's own collective. bytes: of all parts. A reduce-scatter by halving and an allgather by doubling; with a
// root a binomial tree, or halves that are scattered and gathered (Thakur, Rabenseifner and Gropp 2005).
Cost dense_cost(Collective collective, double bytes, int ranks, const Prices& prices);

// The lengths of what a call sends beside elements. engine/agree.cpp compares them with the structs.
inline constexpr std::size_t kFrameHeaderBytes = 32, kHelloBytes = 192;

// The segments that are in flight at a time on a processor with few threads: with four, the codec's work on
// three of them covers the message of one. If each segment has messages for many ranks, two are enough, and
// take half the memory.
constexpr int usual_pipelines(int ranks) { return ranks < 16 ? 4 : 2; }

}  // namespace mq
