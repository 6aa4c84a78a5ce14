// The kernels of threshold, adaptive, topk and zerorun. The _near kernels keep the elements of a block in
// shared memory; the _far kernels read them again.
#pragma once

#include "kernels/cuda/measure.cuh"
#include "kernels/cuda/ternary_encode.cuh"
#include "kernels/cuda/valued_decode.cuh"
#include "kernels/cuda/valued_encode.cuh"
#include "kernels/cuda/zeros_encode.cuh"

// clang-format off
#define MQ_SPARSE_ENCODE(name, threads, resident, ...)                                            \
  MQ_KERNEL_RESIDENT(name, mq::kernels::cuda::SparseEncodeArgs, threads, resident) {              \
    mq::kernels::cuda::__VA_ARGS__(args);                                                         \
  }
#define MQ_SPARSE_ENCODES(codec, encode, threads, resident, far_threads, far_resident)            \
  MQ_SPARSE_ENCODE(codec##_encode_f32_near, threads, resident, encode<float, true>)               \
  MQ_SPARSE_ENCODE(codec##_encode_f32_far, far_threads, far_resident, encode<float, false>)       \
  MQ_SPARSE_ENCODE(codec##_encode_f64_near, threads, resident, encode<double, true>)              \
  MQ_SPARSE_ENCODE(codec##_encode_f64_far, far_threads, far_resident, encode<double, false>)
// For floats that stay in device memory: 56 registers, so that nine thread blocks of 128 fit a multiprocessor. For doubles these
// would be too few.
#define MQ_SELECT_ENCODES(codec, encode)                                                          \
  MQ_SPARSE_ENCODES(codec, encode, mq::kernels::cuda::kSelectThreads, 2, mq::kernels::cuda::kFarThreads, 3)
MQ_SELECT_ENCODES(threshold, encode_threshold)
MQ_SELECT_ENCODES(adaptive, encode_adaptive)
MQ_SELECT_ENCODES(adaptive_rare, encode_adaptive_rare)
MQ_SELECT_ENCODES(topk, encode_valued)
MQ_SPARSE_ENCODES(zerorun, encode_zeros, mq::kernels::cuda::kSparseThreads, 1, mq::kernels::cuda::kSparseThreads, 1)

// `resident` thread blocks of a decode should fit a multiprocessor, because each of them waits for memory again and again.
#define MQ_SPARSE_DECODES(family, Length, T, element, resident)                                   \
  MQ_WALKS(family, element, mq::kernels::cuda::SparseDecodeArgs, mq::kernels::cuda::Length<T>)    \
  MQ_KERNEL_RESIDENT(family##_decode_##element, mq::kernels::cuda::SparseDecodeArgs,              \
                     mq::kernels::cuda::kDecodeThreads, resident) {                               \
    mq::kernels::cuda::decode_##family<T>(args);                                                  \
  }
MQ_SPARSE_DECODES(ternary, TernaryLength, float, f32, 3)
MQ_SPARSE_DECODES(ternary, TernaryLength, double, f64, 2)
MQ_SPARSE_DECODES(valued, ValuedLength, float, f32, 3)
MQ_SPARSE_DECODES(valued, ValuedLength, double, f64, 2)
MQ_SPARSE_DECODES(zeros, ZerosLength, float, f32, 4)
MQ_SPARSE_DECODES(zeros, ZerosLength, double, f64, 2)
// clang-format on

MQ_KERNEL(threshold_begin, mq::kernels::cuda::MeasureArgs, 512) { mq::kernels::cuda::measure_begin(args); }
MQ_KERNEL(threshold_count_f32, mq::kernels::cuda::MeasureArgs, 512) {
  mq::kernels::cuda::measure_count<float>(args);
}
MQ_KERNEL(threshold_count_f64, mq::kernels::cuda::MeasureArgs, 512) {
  mq::kernels::cuda::measure_count<double>(args);
}
MQ_KERNEL(threshold_take_f32, mq::kernels::cuda::MeasureArgs, 512) {
  mq::kernels::cuda::measure_take<float>(args);
}
MQ_KERNEL(threshold_take_f64, mq::kernels::cuda::MeasureArgs, 512) {
  mq::kernels::cuda::measure_take<double>(args);
}
