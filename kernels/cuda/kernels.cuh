// All kernels: what the image holds (image.cu), and what the tests' emulator knows. One line a file.
#pragma once

#include "kernels/cuda/bitmaps.cuh"
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/onebit.cuh"
#include "kernels/cuda/onebit_steps.cuh"
#include "kernels/cuda/sparse.cuh"
