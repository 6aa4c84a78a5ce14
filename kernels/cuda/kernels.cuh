// All kernels: what the image holds (image.cu), and what the tests' emulator knows. One line a file.
#pragma once

#include "kernels/cuda/simt.cuh"
