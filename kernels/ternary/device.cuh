// The kernels of threshold and adaptive.
#pragma once

#include "kernels/sparse/kernels.cuh"
#include "kernels/ternary/encode.cuh"
#include "kernels/ternary/measure.cuh"

MQ_SELECT_ENCODES(threshold, encode_threshold)
MQ_SELECT_ENCODES(adaptive, encode_adaptive)
MQ_SELECT_ENCODES(adaptive_rare, encode_adaptive_rare)
MQ_SPARSE_DECODES(ternary, TernaryLength, float, f32, 3)
MQ_SPARSE_DECODES(ternary, TernaryLength, double, f64, 2)

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
