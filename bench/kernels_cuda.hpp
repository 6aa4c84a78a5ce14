// The cases of mpiq-kernels on a GPU (--memory cuda).
#pragma once

namespace mq::bench {

// Registers the cases with Google Benchmark. If there is no GPU to use, it prints the reason to stderr and
// returns false.
bool register_gpu_cases();

}  // namespace mq::bench
