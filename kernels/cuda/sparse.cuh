// The kernels of threshold, adaptive, topk and zerorun. The _near kernels keep the elements of a block in
// shared memory; the _far kernels read them again.
#pragma once

#include "kernels/cuda/measure.cuh"
#include "kernels/cuda/ternary_encode.cuh"
#include "kernels/cuda/valued_decode.cuh"
#include "kernels/cuda/valued_encode.cuh"
#include "kernels/cuda/zeros_encode.cuh"

// clang-format off
#define MQ_SPARSE_ENCODE(name, threads, resident, T, near, ...)                                   \
  MQ_KERNEL_RESIDENT(name, mq::kernels::cuda::SparseEncodeArgs, threads, resident) {              \
    using namespace mq::kernels::cuda;                                                            \
    __VA_ARGS__ near>(args);                                                                      \
  }
#define MQ_SPARSE_ENCODES(codec, threads, resident, far_threads, far_resident, ...)                                                    \
  MQ_SPARSE_ENCODE(codec##_encode_f32_near, threads, resident, float, true, __VA_ARGS__(float))                      \
  MQ_SPARSE_ENCODE(codec##_encode_f32_far, far_threads, far_resident, float, false, __VA_ARGS__(float))                      \
  MQ_SPARSE_ENCODE(codec##_encode_f64_near, threads, resident, double, true, __VA_ARGS__(double))                    \
  MQ_SPARSE_ENCODE(codec##_encode_f64_far, threads, resident, double, false, __VA_ARGS__(double))
#define MQ_THRESHOLD(T) encode_ternary<T, ThresholdPick,
#define MQ_ADAPTIVE(T) encode_ternary<T, AdaptivePick,
#define MQ_ADAPTIVE_RARE(T) encode_ternary<T, AdaptiveRarePick,
#define MQ_TOPK(T) encode_valued<T,
#define MQ_ZERORUN(T) encode_zeros<T,
// For floats that stay in device memory: 56 registers, so that nine thread blocks of 128 fit a multiprocessor. For doubles these
// would be too few.
#define MQ_SELECT_ENCODES(codec, ...)                                                             \
  MQ_SPARSE_ENCODES(codec, mq::kernels::cuda::kSelectThreads, 2, mq::kernels::cuda::kFarThreads, 3, __VA_ARGS__)
MQ_SELECT_ENCODES(threshold, MQ_THRESHOLD)
MQ_SELECT_ENCODES(adaptive, MQ_ADAPTIVE)
MQ_SELECT_ENCODES(adaptive_rare, MQ_ADAPTIVE_RARE)
MQ_SELECT_ENCODES(topk, MQ_TOPK)
MQ_SPARSE_ENCODES(zerorun, mq::kernels::cuda::kSparseThreads, 1, mq::kernels::cuda::kSparseThreads, 1, MQ_ZERORUN)

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
