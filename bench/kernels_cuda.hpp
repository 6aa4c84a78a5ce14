// The cases of mpiq-kernels on a GPU (--memory cuda).
#pragma once

namespace mq::bench {

// Registers them with Google Benchmark. False, having said why on stderr, if there is no GPU to use.
bool register_gpu_cases();

// Normal-looking noise: sum of four uniform numbers from a 64-bit mixer of the index, times 1e-3.
double noise(unsigned long long index);

}  // namespace mq::bench
