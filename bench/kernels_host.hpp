// The cases of mpiq-kernels on the processor (--memory host).
#pragma once

#include <vector>

#include "mpi_quant/policy/policy.hpp"

namespace mq::bench {

// Registers with Google Benchmark the cases of these methods, which have a codec and no plan.
void register_host_cases(const std::vector<Method>& methods);

// Noise that is nearly normal: the sum of four uniform numbers from a 64-bit mixer of the index, times 1e-3.
double noise(unsigned long long index);

}  // namespace mq::bench
