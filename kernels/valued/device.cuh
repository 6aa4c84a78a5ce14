// The kernels of topk.
#pragma once

#include "kernels/sparse/kernels.cuh"
#include "kernels/valued/decode.cuh"
#include "kernels/valued/encode.cuh"

MQ_SELECT_ENCODES(topk, encode_valued)
MQ_SPARSE_DECODES(valued, ValuedLength, float, f32, 3)
MQ_SPARSE_DECODES(valued, ValuedLength, double, f64, 2)
