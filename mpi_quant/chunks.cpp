#include "mpi_quant/chunks.hpp"

#include <algorithm>

namespace mq {
namespace {

// Results of vectors this long leave the caches before the program reads them.
constexpr std::size_t kStreamBytes = std::size_t{8} << 20;

std::size_t chunk_bytes(const Job& job, const Layout& layout) {
  const std::size_t bytes =
      layout.max_chunk() * kernels::element_bytes(kernels::compute_element(job.element));
  return (bytes + 63) / 64 * 64;
}

kernels::Feedback feedback_of(const Step& step) {
  switch (step.feedback) {
    case StepFeedback::none: return kernels::Feedback::none;
    case StepFeedback::carry: return kernels::Feedback::carry;
    case StepFeedback::deposit: return kernels::Feedback::deposit;
  }
  return kernels::Feedback::none;
}

}  // namespace

const kernels::Codec& raw_codec() {
  static const kernels::Codec& raw = *kernels::find_codec("raw");
  return raw;
}

std::size_t wire_bound(const Job& job, std::size_t n) {
  const std::size_t coded = job.codec->wire_bound(n, job.element, job.params);
  return job.facts->raw ? std::max(coded, raw_codec().wire_bound(n, job.element, {})) : coded;
}

std::size_t Chunks::scratch_bytes(const Job& job, const Layout& layout) {
  const int widened = job.convert != nullptr ? 1 : 0;
  return static_cast<std::size_t>(job.facts->accumulators + widened) * chunk_bytes(job, layout);
}

void Chunks::prepare(const Job& job, const Layout& layout, std::byte* scratch) {
  job_ = &job;
  layout_ = &layout;
  element_bytes_ = kernels::element_bytes(job.element);
  accumulator_bytes_ = chunk_bytes(job, layout);
  accumulators_ = scratch;
  widened_ = scratch + static_cast<std::size_t>(job.facts->accumulators) * accumulator_bytes_;
  stream_ = job.count >= kStreamBytes / element_bytes_;
  where_.resize(static_cast<std::size_t>(job.plan->chunks));
}

void Chunks::start_segment(std::size_t segment) {
  segment_ = segment;
  std::fill(where_.begin(), where_.end(), Where::input);
}

std::size_t Chunks::value_bytes(std::size_t n) const {
  return n * kernels::element_bytes(kernels::compute_element(job_->element));
}

std::byte* Chunks::accumulator(std::size_t chunk) const {
  return accumulators_ + static_cast<std::size_t>(job_->facts->accumulator[chunk]) * accumulator_bytes_;
}

// The chunk's values so far, in the compute type.
const std::byte* Chunks::values(std::size_t chunk, Range range) {
  if (where_[chunk] == Where::accumulator) return accumulator(chunk);
  const std::byte* const stored =
      (where_[chunk] == Where::input ? job_->input : job_->output) + range.begin * element_bytes_;
  if (job_->convert == nullptr) return stored;
  job_->convert->widen(stored, widened_, range.n);
  return widened_;
}

kernels::Encoded Chunks::encode(const Step& step, std::byte* wire) {
  const auto chunk = static_cast<std::size_t>(step.chunk);
  const Range range = layout_->chunk(segment_, chunk);
  kernels::EncodeArgs args;
  args.x = values(chunk, range);
  if (job_->residual != nullptr) {
    args.residual = job_->residual + value_bytes(range.begin);
    args.feedback = feedback_of(step);
  }
  args.n = range.n;
  args.params = params_of(*job_, step);
  args.wire = wire;
  return ops_of(*job_, step).encode(args);
}

kernels::Decoded Chunks::decode(const Step& step, bool final, std::span<const std::byte> wire) {
  const auto chunk = static_cast<std::size_t>(step.chunk);
  const Range range = layout_->chunk(segment_, chunk);
  const bool half = job_->convert != nullptr;
  kernels::DecodeArgs args;
  args.wire = wire.data();
  args.wire_bytes = wire.size();
  args.n = range.n;
  args.params = params_of(*job_, step);
  if (step.op == Op::decode_add) args.base = values(chunk, range);
  args.x = !final ? accumulator(chunk) : half ? widened_ : job_->output + range.begin * element_bytes_;
  args.stream = final && !half && stream_;
  const kernels::Decoded decoded = ops_of(*job_, step).decode(args);
  if (final && half && decoded == kernels::Decoded::ok) round(chunk, range, widened_);
  where_[chunk] = final ? Where::output : Where::accumulator;
  return decoded;
}

// The result of a half type. All ranks lose the same by rounding; the rank that the chunk falls to remembers
// it.
void Chunks::round(std::size_t chunk, Range range, const std::byte* value) {
  const bool mine = static_cast<int>(chunk % static_cast<std::size_t>(job_->size)) == job_->rank;
  std::byte* const residual =
      job_->residual != nullptr && mine ? job_->residual + value_bytes(range.begin) : nullptr;
  job_->convert->narrow(value, job_->output + range.begin * element_bytes_, residual, range.n);
}

}  // namespace mq
