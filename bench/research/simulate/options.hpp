// The command line of mpiq-simulate.
#pragma once

#include <string>
#include <string_view>

#include "bench/options.hpp"
#include "bench/research/simulate/network.hpp"
#include "bench/research/simulate/sparse.hpp"

namespace mq::sim {

struct SimulateOptions {
  // What is simulated, in the words of mpiq-bench. Its link names the network, and `simulation` describes it.
  bench::Options sweep;
  Network network;
  std::string link;  // as it was given
  bool is_sparse = false;
  std::string rates_path, isa;
  double step_s = 0.1e-6;          // StepCosts::step_s
  int segments = 0;                // SimulatedCall::segments
  int calls = 1;                   // SimulatedCall::repeats
  ListCosts list_costs{};          // of a sweep over sparse vectors
  bool prints_footprints = false;  // and nothing else
  bool measures_lists = false;     // nothing but the costs of lists on this processor
  bool asks_model = false;         // nothing is simulated: the model of time is asked
};

struct SimulateCommandLine {
  bool run = false;  // false: print the texts and exit with the code
  int exit_code = bench::kDone;
  std::string out, err;
  SimulateOptions options;
};
SimulateCommandLine parse_simulate(int argc, const char* const* argv);

}  // namespace mq::sim
