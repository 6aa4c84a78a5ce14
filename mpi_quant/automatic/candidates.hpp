// What `auto` may choose from, for one class of calls: MPI's own reduction, and the methods whose error can
// be within the limit, each over the plans that suit the number of ranks. The model of plan/cost.hpp says
// what each is likely to take; it needs the time of MPI's own reduction, and no measurement of the network.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/automatic/heard.hpp"
#include "mpi_quant/plan/cost.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

// Calls that one choice is made for. Their times are stated for vectors of `bytes`.
struct CallClass {
  std::size_t bytes = 0;
  kernels::Element element = kernels::Element::f32;
  int ranks = 2;
  Automatic limit;
  int per_node = 1;  // Ranks::per_node; of an allreduce
  Collective collective = Collective::allreduce;
  bool has_uneven_parts = false;  // the longest is at least twice as long as the mean
  int vectors = 0;  // that one call reduces together, of `bytes` in all; 0: it is a call of one vector
  TimedRank timed() const { return timed_rank(collective, has_uneven_parts); }
  bool can_use(const Method& method) const;
  // One of several vectors is so short that, by chance, its sum may be much shorter (L2) than what the ranks
  // bring, and a small error a great one. It costs few bytes, so codec raw sends it.
  bool sends_raw(std::size_t n) const { return n < shortest_coded(); }
  std::size_t shortest_coded() const {
    constexpr std::size_t kShortest = 64;
    return vectors > 0 && limit.kind == Automatic::Kind::relative ? kShortest : 0;
  }
  std::size_t count() const { return bytes / kernels::element_bytes(element); }
  bool operator==(const CallClass&) const = default;
};

struct AutoCandidate {
  // With its plan, if the collective is an allreduce: the others have no choice. The first candidate's: MPI
  // reduces.
  Method method;
  // Of an element, on one core of a usual machine (usual_rates). They only order what is tried first; calls
  // that ran replace the prediction.
  double encode_s = 0, decode_s = 0;
  double usual_bytes = 0;      // on the wire, of an element
  double wire_bytes = 0;       // the same, but what the last sample said
  bool sized_by_data = false;  // only a sample tells
  bool is_sure = true;         // lossless, or it promises that each element is within the limit
  double losses = 1;           // Losses::all() of its plan
};

// The first candidate is MPI's own reduction. Half types have no other: the codec of the type sums them. May
// throw std::bad_alloc.
std::vector<AutoCandidate> candidates_of(const CallClass& calls);

// The candidate that a line of a file names, in addition to candidates_of. For an allreduce a method that
// names no plan gets the one that the library chooses. Nothing if the limit cannot be kept with the method,
// or if it is MPI's own reduction. Its time is not predicted.
std::optional<AutoCandidate> candidate_for(const CallClass& calls, const std::vector<AutoCandidate>& listed,
                                           const Method& method);

// What MPI's own reduction takes: it sums several vectors one after the other.
double dense_seconds(const CallClass& calls, const Prices& prices);

// The prices of a network on which MPI's own reduction takes dense_s and an agreement agreement_s. An
// agreement of 0 s is unknown; its messages are then taken to need a tenth of the dense time.
Prices fitted_prices(const CallClass& calls, double dense_s, double agreement_s);

// How fast a machine is: elements a second of rated_codec(); 0: not known.
struct CodecRates {
  double encode = 0, decode = 0;
};
const kernels::Codec& rated_codec();
CodecRates usual_rates(kernels::Element element);  // with which the candidates state their times

// How many times as long codecs take here as candidates state.
struct Slowness {
  double encode = 1, decode = 1;
};
Slowness slowness_of(const CodecRates& here, kernels::Element element);

// What a candidate other than the first is likely to take, in seconds.
double predicted_s(const CallClass& calls, const AutoCandidate& candidate, const Prices& network,
                   const Slowness& slowness = {});

}  // namespace mq
