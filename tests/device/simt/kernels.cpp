// The library's kernels as the host's compiler sees them: in the emulator's table by being linked.

#include "kernels/cuda/kernels.cuh"
