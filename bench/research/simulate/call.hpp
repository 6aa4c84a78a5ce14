// One compressed collective among simulated ranks: the library's agreement and executor over the network of a
// World. The root of a broadcast or of a reduction is rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/research/simulate/network.hpp"
#include "bench/research/simulate/rates.hpp"
#include "bench/research/simulate/world.hpp"
#include "mpi_quant/engine/execute.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq::sim {

inline constexpr int kMostRanks = 16384;  // of one process: two memory areas each, see Fibers

// The vectors of a call, by rank. Each holds the call's elements; the elements of `residual` have the compute
// type. Without residuals there is no feedback.
struct Vectors {
  std::vector<const std::byte*> input;
  std::vector<std::byte*> output, residual;
};

struct SimulatedCall {
  mq::Collective collective = mq::Collective::allreduce;
  Method method;  // without a plan: the library's choice. mpi: see simulate_dense (dense.hpp)
  kernels::Element element = kernels::Element::f32;  // f32 or f64
  std::size_t count = 0;  // of the whole vector; bench/parts.hpp cuts it into the ranks' parts
  int ranks = 2;
  int calls = 1;  // equal ones that are started together, each in its own window of tags
  int repeats =
      1;  // one after the other, with a barrier before each. The last one counts: it finds the network as left by the others
  int segments = 0;  // in flight: pipelines_of
  bool feedback = true;
  std::uint64_t random_key = 0;      // kernels::NoiseIndex::call
  bool is_warm = false;              // StepCosts
  double step_s = 0;                 // StepCosts
  const Vectors* vectors = nullptr;  // null: nothing is encoded, and no memory is used for vectors
  World::Loses loses = {};           // messages that get lost on the way
};

// Times begin when the rank enters the call.
struct SimulatedRank {
  double end_s = 0, agreed_s = 0;
  double encode_s = 0, decode_s = 0, wait_s = 0;
  std::uint64_t messages = 0;     // sent, agreement included
  std::uint64_t frame_bytes = 0;  // sent, agreement left out, as the library's statistics count them
};

struct SimulatedResult {
  Status status;  // the first error of a rank, or why the ranks waited for ever
  std::vector<SimulatedRank> ranks;
  const PlanRow* plan = nullptr;
  std::uint64_t events = 0;
  std::size_t leaked = 0;
  // The rank that ends last, the first of them if there are several.
  const SimulatedRank& last() const;
};

// The segments of a call in flight: so many, or with 0 as many as core/channel.hpp chooses with few threads.
// Never more than a window has tags for.
int pipelines_of(const Plan& plan, int ranks, int segments = 0);
// The plan of a call.
const PlanRow& plan_of(const SimulatedCall& call);

// Returns when all ranks have entered it: by dissemination, with empty messages.
Status barrier(SimComm& comm);

// Whether a call can be simulated on this network with these rates; if not, why. Raw steps need the rates of
// raw.
Status check(const SimulatedCall& call, const Network& network, const Rates& rates);

// Not of the method mpi. check() must have allowed it. Throws std::bad_alloc.
SimulatedResult simulate(const SimulatedCall& call, const Network& network, const Rates& rates);

}  // namespace mq::sim
