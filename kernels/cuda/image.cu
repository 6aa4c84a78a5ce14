// The one translation unit of the image: all kernels, for every GPU it is made for.
// nvcc -fatbin -std=c++20 --fmad=false --expt-relaxed-constexpr: see cmake/mpiq_cuda.cmake.

#include "kernels/cuda/kernels.cuh"
