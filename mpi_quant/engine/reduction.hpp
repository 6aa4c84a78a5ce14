// The description of one reduction, and how its vector and its messages are cut. It is apart from the code
// that runs it: a backend runs the codec, and execute.hpp runs everything. There is no communication here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "kernels/memory.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/engine/backend.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/plan/layout.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

// The memory rule of one call. Without ops it is none or carry, which codecs run themselves.
struct CallFeedback {
  const kernels::MemoryRule* rule = nullptr;
  const kernels::MemoryOps* ops = nullptr;
  kernels::Params params;
  double factor = 1;  // kernels::MemoryOps::factor of this rank's vector
  // For rules with estimates. exact_restart, on all ranks: the call is exact (with codec raw) and starts the
  // estimates again. skipped_messages: number of leading messages of each encode that this rank leaves out.
  kernels::EstimateTerms terms;
  bool exact_restart = false;
  int skipped_messages = 0;
  // The call adds nothing up, and the rule keeps one array, of the whole vector (MemoryRule::mirrors).
  bool mirrors = false;
  bool keeps_estimates() const { return ops != nullptr && rule->keeps_estimates; }
  int arrays() const { return mirrors ? 1 : rule->arrays; }  // that each rank keeps
  int messages() const { return keeps_estimates() && !exact_restart ? terms.messages : 1; }
};

// What of the vector is in the memory of each rank, if parts belong to ranks or one rank is the root. Else
// input and output hold the whole vector.
struct Parts {
  std::span<const std::size_t> ends;  // by rank: its part ends before this element. Empty: there are no parts
  // What input and output hold.
  Range input, output;
  // By rank: where its part begins in output, for an allgather. Empty: parts follow each other there as in
  // the vector.
  std::span<const std::size_t> places;
  // Of `input`, what belongs at the beginning of the memory that the caller gave for both: a reduce-scatter
  // in place. Until the call is over the parts of others are read there.
  bool moves = false;
  int root = kNobody;  // of a collective that has one
  bool are_given() const { return !ends.empty() || root != kNobody; }
};

// One of several vectors that a call reduces together. Each of them begins with a new block, is encoded by
// itself and has a residual of its own. The payload of a frame holds, for each vector of which the chunk has
// elements, the length of its codes in kLengthBytes, and the codes.
struct VectorPlace {
  std::size_t first = 0, n = 0;  // its elements in all vectors, one after the other
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* residual = nullptr;  // the arrays of the memory rule, of n elements each; null: nothing is kept
  double factor = 1;              // in place of CallFeedback::factor
  bool is_raw = false;            // by raw_codec(), whatever the codec is. Then nothing is kept
};

// input and output hold count elements, unless `parts` says otherwise. They may be the same array but must
// not overlap otherwise. residual holds the arrays of the memory rule one after the other, in elements of the
// compute type. All pointers must outlive the execution.
struct Reduction {
  const Plan* plan = nullptr;
  const PlanIndex* plan_index = nullptr;  // index_of(*plan)
  const kernels::Codec* codec = nullptr;
  const kernels::CodecOps* ops = nullptr;
  const kernels::CodecOps* raw_ops = nullptr;    // of raw_codec(), if steps or vectors are raw
  const kernels::ConvertOps* convert = nullptr;  // for half types, else null
  Backend* backend = nullptr;                    // runs the codec
  kernels::Params params;
  CallFeedback memory;
  kernels::Element element = kernels::Element::f32;
  std::size_t count = 0;
  Parts parts;
  // If the call is of several vectors: these, in place of the next three pointers, which are null, and where
  // each of them ends. count is the elements of all. Only on the host, and not with estimates.
  std::span<const VectorPlace> vectors;
  std::span<const std::size_t> vector_ends;
  std::size_t vectors_bound = 0;  // payload_bound() of several vectors; 0: it is not known yet
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* residual = nullptr;  // null: nothing is kept
  std::uint64_t call = 0;         // hash of the signature
  std::uint64_t random_key = 0;   // kernels::NoiseIndex::call
  int rank = 0, size = 1;
  int divisor = 1;    // of the result: `size` for a mean, else 1. See mean.hpp
  int pipelines = 4;  // segments in flight
  // Segments that follow each other have different tags. The same on all ranks, and a multiple of `pipelines`
  // of each rank.
  int tag_segments = 4;
  int threads = 1;    // codec steps of different segments that may run side by side on the processor
  int first_tag = 0;  // the reduction owns tags_of(plan) * tag_segments tags from this one on
};

// The elements of the vector that this rank has in its input and its output.
inline Range input_of(const Reduction& reduction) {
  return reduction.parts.are_given() ? reduction.parts.input : Range{0, reduction.count};
}
inline Range output_of(const Reduction& reduction) {
  return reduction.parts.are_given() ? reduction.parts.output : Range{0, reduction.count};
}
// The elements of which the arrays of the memory rule hold something.
inline Range kept_of(const Reduction& reduction) {
  return reduction.memory.mirrors ? Range{0, reduction.count} : input_of(reduction);
}

// The codec of raw steps.
inline const kernels::Codec& raw_codec() {
  static const kernels::Codec& raw = *kernels::find_codec("raw");
  return raw;
}
// Whether a step may be raw: if the plan has raw steps, or in an exact call of a rule with estimates.
inline bool may_be_raw(const Reduction& reduction) {
  return reduction.plan_index->raw || reduction.memory.keeps_estimates();
}
inline bool is_raw(const Reduction& reduction, const Step& step, const VectorPlace* vector = nullptr) {
  return step.raw || reduction.memory.exact_restart || (vector != nullptr && vector->is_raw);
}
// The codec of a step, and the functions and parameters that it runs with. vector: whose elements it handles,
// if the call is of several.
inline const kernels::Codec& codec_of(const Reduction& reduction, const Step& step) {
  return is_raw(reduction, step) ? raw_codec() : *reduction.codec;
}
inline const kernels::CodecOps& ops_of(const Reduction& reduction, const Step& step,
                                       const VectorPlace* vector = nullptr) {
  return is_raw(reduction, step, vector) ? *reduction.raw_ops : *reduction.ops;
}
inline kernels::Params params_of(const Reduction& reduction, const Step& step,
                                 const VectorPlace* vector = nullptr) {
  return is_raw(reduction, step, vector) ? kernels::Params{} : reduction.params;
}
// Several messages in one payload: the first eight bytes are the length of the first message.
inline constexpr std::size_t kLengthBytes = 8;
// Bytes that the codec's messages about n elements may take in one payload.
inline std::size_t coded_bound(const Reduction& reduction, std::size_t n) {
  const std::size_t one = reduction.codec->wire_bound(n, reduction.element, reduction.params);
  const auto messages =
      static_cast<std::size_t>(reduction.memory.keeps_estimates() ? reduction.memory.terms.messages : 1);
  return messages > 1 ? kLengthBytes + messages * one : one;
}
// True if the codec may send long vectors of this type in more bytes than they have. Such a call is refused,
// whatever the length of its own vector: so a method and a type are accepted for every length or for none. A
// vector that is no multiple of a block may still be sent in more bytes than it has, by less than one block
// in the type in which the codec computes.
inline bool outgrows_vectors(const Reduction& reduction) {
  constexpr std::size_t kLong = std::size_t{1} << 20;
  const std::size_t block = reduction.codec->block(reduction.params), n = (kLong + block - 1) / block * block;
  const std::size_t bytes = n * kernels::element_bytes(reduction.element);
  const std::size_t headers = 64 + bytes / 1024;  // of the message, and of its blocks
  return coded_bound(reduction, n) > bytes + headers;
}
// Bytes that an encoded chunk of at most n elements may take in any slot of the reduction.
inline std::size_t wire_bound(const Reduction& reduction, std::size_t n) {
  const std::size_t coded = coded_bound(reduction, n);
  return may_be_raw(reduction) ? std::max(coded, raw_codec().wire_bound(n, reduction.element, {})) : coded;
}

// What one execution did on this rank.
struct Tally {
  std::uint64_t sent_bytes = 0, received_bytes = 0, messages_sent = 0, nonfinite = 0, overflows = 0;
  double encode_s = 0, decode_s = 0, wait_s = 0;
};

// Bytes of n values of the type in which the reduction computes.
inline std::size_t value_bytes(const Reduction& reduction, std::size_t n) {
  return n * kernels::element_bytes(kernels::compute_element(reduction.element));
}
inline Layout layout_of(const Reduction& reduction) {
  if (!reduction.parts.ends.empty())
    return Layout(reduction.parts.ends, reduction.codec->block(reduction.params), value_bytes(reduction, 1),
                  reduction.codec->whole(reduction.params));
  if (!reduction.vector_ends.empty())
    return Layout(reduction.vector_ends, reduction.plan->chunks, reduction.codec->block(reduction.params),
                  value_bytes(reduction, 1), reduction.codec->whole(reduction.params));
  return Layout(reduction.count, reduction.plan->chunks, reduction.codec->block(reduction.params),
                value_bytes(reduction, 1), reduction.codec->whole(reduction.params), reduction.plan->rooted);
}
inline std::size_t pipelines_of(const Reduction& reduction, const Layout& layout) {
  return std::min(static_cast<std::size_t>(reduction.pipelines), layout.segments());
}
// Bytes that the payload of any frame may take.
inline std::size_t payload_bound(const Reduction& reduction, const Layout& layout) {
  if (reduction.vectors.empty()) return wire_bound(reduction, layout.max_chunk());
  if (reduction.vectors_bound > 0) return reduction.vectors_bound;
  const auto bound = [&](std::size_t n, bool is_raw) {
    return kLengthBytes +
           (is_raw ? raw_codec().wire_bound(n, reduction.element, {}) : wire_bound(reduction, n));
  };
  std::size_t most = bound(layout.max_chunk(), false);
  for (const VectorPlace& vector : reduction.vectors)
    if (vector.is_raw) most = std::max(most, bound(vector.n, true));
  layout.for_each_shared_chunk([&](Range chunk) {
    std::size_t bytes = 0;
    layout.for_each_vector(chunk, [&](std::size_t vector, Range part) {
      bytes += bound(part.n, reduction.vectors[vector].is_raw);
    });
    most = std::max(most, bytes);
  });
  return most;
}
// Bytes of a slot: the longest frame, including the header.
inline std::size_t slot_bytes_of(const Reduction& reduction, const Layout& layout) {
  const std::size_t bound = payload_bound(reduction, layout);
  return round_up(sizeof(FrameHeader) + bound, kHostLine);
}

}  // namespace mq
