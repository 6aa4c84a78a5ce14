#include "mpi_quant/engine/chunk_places.hpp"

#include <algorithm>

namespace mq {
namespace {

// Results of vectors of this length leave the caches before the program reads them.
constexpr std::size_t kStreamBytes = std::size_t{8} << 20;

std::size_t chunk_bytes(const Reduction& reduction, const Layout& layout) {
  return round_up(value_bytes(reduction, layout.max_chunk()), kHostLine);
}

bool is_half(const Reduction& reduction) {
  return kernels::compute_element(reduction.element) != reduction.element;
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

std::size_t ChunkPlaces::memory_bytes(const Reduction& reduction, const Layout& layout) {
  return static_cast<std::size_t>(reduction.plan_index->accumulators + (is_half(reduction) ? 1 : 0)) *
         chunk_bytes(reduction, layout);
}

void ChunkPlaces::prepare(const Reduction& reduction, const Layout& layout, std::byte* memory) {
  reduction_ = &reduction;
  layout_ = &layout;
  element_bytes_ = kernels::element_bytes(reduction.element);
  accumulator_bytes_ = chunk_bytes(reduction, layout);
  accumulators_ = memory;
  widened_ = is_half(reduction)
                 ? memory + static_cast<std::size_t>(reduction.plan_index->accumulators) * accumulator_bytes_
                 : nullptr;
  stream_ = reduction.count >= kStreamBytes / element_bytes_;
  where_.resize(static_cast<std::size_t>(reduction.plan->chunks));
}

void ChunkPlaces::start_segment(std::size_t segment) {
  segment_ = segment;
  std::fill(where_.begin(), where_.end(), Where::input);
}

std::byte* ChunkPlaces::accumulator(std::size_t chunk) const {
  return accumulators_ +
         static_cast<std::size_t>(reduction_->plan_index->accumulator[chunk]) * accumulator_bytes_;
}

std::byte* ChunkPlaces::output(std::size_t chunk, Range range) const {
  const Parts& parts = reduction_->parts;
  const std::size_t at = parts.places.empty()
                             ? range.begin - output_of(*reduction_).begin
                             : parts.places[chunk] + (range.begin - layout_->part(chunk).begin);
  return reduction_->output + at * element_bytes_;
}

std::byte* ChunkPlaces::residual(Range range) const {
  return reduction_->residual + value_bytes(*reduction_, range.begin - input_of(*reduction_).begin);
}

kernels::NoiseIndex ChunkPlaces::noise(const Step& step) const {
  return {reduction_->random_key, static_cast<std::uint64_t>(step.sum),
          layout_->index(segment_, static_cast<std::size_t>(step.chunk)), reduction_->size};
}

// The current values of a chunk, in the compute type. If `half` is set, they must be widened from there
// first.
const std::byte* ChunkPlaces::values(std::size_t chunk, Range range, const std::byte*& half) const {
  if (where_[chunk] == Where::accumulator) return accumulator(chunk);
  const std::byte* const stored =
      where_[chunk] == Where::output
          ? output(chunk, range)
          : reduction_->input + (range.begin - input_of(*reduction_).begin) * element_bytes_;
  if (widened_ == nullptr) return stored;
  half = stored;
  return widened_;
}

ChunkPlaces::Encode ChunkPlaces::encode(const Step& step, std::byte* wire) const {
  const Range range = this->range(step);
  Encode encode;
  encode.args.x = values(static_cast<std::size_t>(step.chunk), range, encode.half);
  if (reduction_->residual != nullptr) {
    encode.args.residual = residual(range);
    encode.args.feedback = feedback_of(step);
  }
  encode.widened = widened_;
  encode.args.n = range.n;
  encode.args.params = params_of(*reduction_, step);
  encode.args.wire = wire;
  encode.args.noise = noise(step);
  return encode;
}

ChunkPlaces::Decode ChunkPlaces::decode(const Step& step, bool final, std::span<const std::byte> wire) {
  const auto chunk = static_cast<std::size_t>(step.chunk);
  const Range range = this->range(step);
  const bool half = widened_ != nullptr;
  Decode decode;
  decode.args.wire = wire.data();
  decode.args.wire_bytes = wire.size();
  decode.args.n = range.n;
  decode.args.params = params_of(*reduction_, step);
  decode.args.noise = noise(step);
  decode.widened = widened_;
  if (step.op == Op::decode_add) decode.args.base = values(chunk, range, decode.half);
  decode.args.x = !final ? accumulator(chunk) : half ? widened_ : output(chunk, range);
  decode.args.stream = final && !half && stream_ && reduction_->divisor == 1;
  if (final && half) {
    decode.rounded = output(chunk, range);
    // All ranks lose the same by rounding. One rank keeps the loss in its residual: the root, or, without
    // one, by number of the chunk. The sum of estimates is rounded anew in every call, so nothing is lost.
    const int root = reduction_->parts.root;
    const int keeper = root != kNobody ? root : static_cast<int>(chunk) % reduction_->size;
    if (reduction_->residual != nullptr && !reduction_->memory.keeps_estimates() &&
        keeper == reduction_->rank)
      decode.residual = residual(range);
  }
  where_[chunk] = final ? Where::output : Where::accumulator;
  return decode;
}

}  // namespace mq
