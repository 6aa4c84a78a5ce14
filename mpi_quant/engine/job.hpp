// The description of one reduction, and how its vector and its messages are cut. It is apart from the code
// that runs it: a backend runs the codec, and execute.hpp runs everything. There is no communication here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "mpi_quant/engine/backend.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/plan/layout.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

// input and output hold count elements. They may be the same array but must not overlap otherwise. residual
// holds elements of the compute type. All pointers must outlive the execution.
struct Job {
  const Plan* plan = nullptr;
  const PlanFacts* facts = nullptr;  // facts_of(*plan)
  const kernels::Codec* codec = nullptr;
  const kernels::CodecOps* ops = nullptr;
  const kernels::CodecOps* raw_ops = nullptr;    // those of raw_codec(), if the plan has raw steps
  const kernels::ConvertOps* convert = nullptr;  // for half types, else null
  Backend* backend = nullptr;                    // runs the codec
  kernels::Params params;
  kernels::Element element = kernels::Element::f32;
  std::size_t count = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* residual = nullptr;  // null: no feedback
  std::uint64_t call = 0;         // hash of the signature
  int rank = 0, size = 1;
  int lanes = 4;      // segments in flight; the same on all ranks
  int threads = 1;    // codec steps of different segments that may run side by side on the processor
  int first_tag = 0;  // the job owns rounds * lanes tags from this one on
};

// The codec of raw steps.
inline const kernels::Codec& raw_codec() {
  static const kernels::Codec& raw = *kernels::find_codec("raw");
  return raw;
}
// The codec of a step, and the functions and parameters that it runs with.
inline const kernels::Codec& codec_of(const Job& job, const Step& step) {
  return step.raw ? raw_codec() : *job.codec;
}
inline const kernels::CodecOps& ops_of(const Job& job, const Step& step) {
  return step.raw ? *job.raw_ops : *job.ops;
}
inline kernels::Params params_of(const Job& job, const Step& step) {
  return step.raw ? kernels::Params{} : job.params;
}
// Bytes that an encoded chunk of at most n elements may take in any slot of the job.
inline std::size_t wire_bound(const Job& job, std::size_t n) {
  const std::size_t coded = job.codec->wire_bound(n, job.element, job.params);
  return job.facts->raw ? std::max(coded, raw_codec().wire_bound(n, job.element, {})) : coded;
}

// What one execution did on this rank.
struct Tally {
  std::uint64_t sent_bytes = 0, received_bytes = 0, messages_sent = 0, nonfinite = 0;
  double encode_s = 0, decode_s = 0, wait_s = 0;
};

inline Layout layout_of(const Job& job) {
  return Layout(job.count, job.plan->chunks, job.codec->block(job.params),
                kernels::element_bytes(kernels::compute_element(job.element)), job.codec->whole(job.params));
}
inline std::size_t lanes_of(const Job& job, const Layout& layout) {
  return std::min(static_cast<std::size_t>(job.lanes), layout.segments());
}
// Bytes of a slot: the longest frame, including the header.
inline std::size_t slot_bytes_of(const Job& job, const Layout& layout) {
  const std::size_t bound = wire_bound(job, layout.max_chunk());
  return (sizeof(FrameHeader) + bound + 63) / 64 * 64;
}

}  // namespace mq
