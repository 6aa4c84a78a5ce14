// All kernels: the content of the image (image.cu) and of the tests' emulator. One line for each family with
// kernels.
#pragma once

#include "kernels/cuda/bitmaps.cuh"
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/halves/device.cuh"
#include "kernels/integers/device.cuh"
#include "kernels/lattice/device.cuh"
#include "kernels/microscaled/device.cuh"
#include "kernels/microscaled/nvfp4.cuh"
#include "kernels/onebit/device.cuh"
#include "kernels/onebit/steps.cuh"
#include "kernels/patterns/device.cuh"
#include "kernels/raw/device.cuh"
#include "kernels/ternary/device.cuh"
#include "kernels/trits/device.cuh"
#include "kernels/valued/device.cuh"
#include "kernels/zeros/device.cuh"
