// The cases of mpiq-kernels on a GPU (--memory cuda).
#pragma once

namespace mq::bench {

// Registers the cases with Google Benchmark. If there is no GPU to use, it prints the reason to stderr and
// returns false.
bool register_gpu_cases();

// Noise that is nearly normal: the sum of four uniform numbers from a 64-bit mixer of the index, times 1e-3.
double noise(unsigned long long index);

}  // namespace mq::bench
