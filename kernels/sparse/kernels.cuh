// How the kernels of a codec that sends few elements are declared. The _near kernels keep the elements of a
// block in shared memory; the _far kernels read them again.
#pragma once

#include "kernels/sparse/decode.cuh"
#include "kernels/sparse/select.cuh"

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
// For floats that stay in device memory: 56 registers, so that nine thread blocks of 128 fit a
// multiprocessor. For doubles these would be too few.
#define MQ_SELECT_ENCODES(codec, encode)                                                          \
  MQ_SPARSE_ENCODES(codec, encode, mq::kernels::cuda::kSelectThreads, 2, mq::kernels::cuda::kFarThreads, 3)

// `resident` thread blocks of a decode should fit a multiprocessor, because each of them waits for memory
// again and again.
#define MQ_SPARSE_DECODES(family, Length, T, element, resident)                                   \
  MQ_WALKS(family, element, mq::kernels::cuda::SparseDecodeArgs, mq::kernels::cuda::Length<T>)    \
  MQ_KERNEL_RESIDENT(family##_decode_##element, mq::kernels::cuda::SparseDecodeArgs,              \
                     mq::kernels::cuda::kDecodeThreads, resident) {                               \
    mq::kernels::cuda::decode_##family<T>(args);                                                  \
  }
// clang-format on
