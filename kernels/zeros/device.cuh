// The kernels of zerorun.
#pragma once

#include "kernels/sparse/kernels.cuh"
#include "kernels/valued/decode.cuh"
#include "kernels/zeros/encode.cuh"

MQ_SPARSE_ENCODES(zerorun, encode_zeros, mq::kernels::cuda::kSparseThreads, 1,
                  mq::kernels::cuda::kSparseThreads, 1)
MQ_SPARSE_DECODES(zeros, ZerosLength, float, f32, 4)
MQ_SPARSE_DECODES(zeros, ZerosLength, double, f64, 2)
