// The one translation unit of the image: all kernels, for every GPU that it supports. Compiled with nvcc
// -fatbin -std=c++20 --fmad=false --expt-relaxed-constexpr; see cmake/mpiq_cuda.cmake.

#include "kernels/cuda/kernels.cuh"
