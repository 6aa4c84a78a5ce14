// mpiq-bench --explain-kylix shows the degrees that Kylix would choose and, layer by layer, what they cost by
// the model. It needs no launcher and no MPI.
#pragma once

#include "bench/options.hpp"

namespace mq::bench {

inline constexpr const char* kExplain = "--explain-kylix";

// For a command line whose first argument is kExplain. The result is a text to print or an error, never a
// run.
CommandLine explain_kylix(int argc, const char* const* argv);

}  // namespace mq::bench
