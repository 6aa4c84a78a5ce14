// mpiq-bench --explain-kylix: the degrees that Kylix would have and what they cost by the model, layer by
// layer. Needs no launcher and no MPI.
#pragma once

#include "bench/options.hpp"

namespace mq::bench {

inline constexpr const char* kExplain = "--explain-kylix";

// Of a command line whose first argument is kExplain: what to print, or why not. Never a run.
CommandLine explain_kylix(int argc, const char* const* argv);

}  // namespace mq::bench
