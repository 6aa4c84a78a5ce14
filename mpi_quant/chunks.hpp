// One reduction, described, and the codec's side of it: where the values of a chunk are between two steps.
// Apart from the executor, which sees steps and messages only; free of any communication.
//
// A chunk is read from the input until a step writes it. Of several writes only the last goes to the output,
// around the caches where the vector is long; those before go to an accumulator that stays in L2, so that
// memory is written once. Vectors of half types are widened on the way in and rounded once, on the way out:
// sums are accumulated in float, and what the last rounding loses goes to the residual of one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "mpi_quant/layout.hpp"
#include "mpi_quant/plan.hpp"

namespace mq {

// input and output hold count elements and may be the same array, but not overlap otherwise. residual is of
// the compute type. All pointers outlive the execution.
struct Job {
  const Plan* plan = nullptr;
  const PlanFacts* facts = nullptr;  // of the plan
  const kernels::Codec* codec = nullptr;
  const kernels::CodecOps* ops = nullptr;
  const kernels::CodecOps* raw_ops = nullptr;    // of raw_codec(), if the plan has raw steps
  const kernels::ConvertOps* convert = nullptr;  // of half types, else null
  kernels::Params params;
  kernels::Element element = kernels::Element::f32;
  std::size_t count = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* residual = nullptr;  // null: no feedback
  std::uint64_t call = 0;         // hash of the signature
  int rank = 0, size = 1;
  int lanes = 4;      // segments in flight; the same on all ranks
  int threads = 1;    // codec steps of different lanes that may run side by side
  int first_tag = 0;  // of rounds times lanes tags that belong to this job
};

// What raw steps encode by.
const kernels::Codec& raw_codec();
// A step's codec, and the ops and parameters it runs with.
inline const kernels::Codec& codec_of(const Job& job, const Step& step) {
  return step.raw ? raw_codec() : *job.codec;
}
inline const kernels::CodecOps& ops_of(const Job& job, const Step& step) {
  return step.raw ? *job.raw_ops : *job.ops;
}
inline kernels::Params params_of(const Job& job, const Step& step) {
  return step.raw ? kernels::Params{} : job.params;
}
// Room for an encoded chunk of at most n elements in any slot of the job.
std::size_t wire_bound(const Job& job, std::size_t n);

// What one execution did on this rank.
struct Tally {
  std::uint64_t sent_bytes = 0, received_bytes = 0, messages_sent = 0, nonfinite = 0;
  double encode_s = 0, decode_s = 0, wait_s = 0;
};

// The values of one segment at a time.
class Chunks {
 public:
  // Bytes of scratch, a multiple of 64.
  static std::size_t scratch_bytes(const Job& job, const Layout& layout);
  // scratch lies at a 64-byte boundary. Allocates only for a plan with more chunks than any before.
  void prepare(const Job& job, const Layout& layout, std::byte* scratch);
  void start_segment(std::size_t segment);

  // The steps. wire has room for the codec's bound of the chunk.
  kernels::Encoded encode(const Step& step, std::byte* wire);
  kernels::Decoded decode(const Step& step, bool final, std::span<const std::byte> wire);

 private:
  enum class Where : char { input, accumulator, output };
  std::byte* accumulator(std::size_t chunk) const;
  std::size_t value_bytes(std::size_t n) const;  // of n elements in the compute type
  const std::byte* values(std::size_t chunk, Range range);
  void round(std::size_t chunk, Range range, const std::byte* value);

  const Job* job_ = nullptr;
  const Layout* layout_ = nullptr;
  std::byte* widened_ = nullptr;       // half types: a chunk as floats
  std::byte* accumulators_ = nullptr;  // plan's accumulators, of a chunk each
  std::size_t accumulator_bytes_ = 0, element_bytes_ = 4, segment_ = 0;
  bool stream_ = false;
  std::vector<Where> where_;  // by chunk
};

}  // namespace mq
