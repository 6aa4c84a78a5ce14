// All kernels: the content of the image (image.cu) and of the tests' emulator. One line per file.
#pragma once

#include "kernels/cuda/bitmaps.cuh"
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/halves.cuh"
#include "kernels/cuda/integers.cuh"
#include "kernels/cuda/lattice.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/microscaled.cuh"
#include "kernels/cuda/onebit.cuh"
#include "kernels/cuda/onebit_steps.cuh"
#include "kernels/cuda/patterns.cuh"
#include "kernels/cuda/sparse.cuh"
#include "kernels/cuda/trits.cuh"
#include "kernels/cuda/two_scales.cuh"
