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

std::byte* ChunkPlaces::accumulator(const Step& step, const Piece& piece) const {
  const auto number =
      static_cast<std::size_t>(reduction_->plan_index->accumulator[static_cast<std::size_t>(step.chunk)]);
  return accumulators_ + number * accumulator_bytes_ +
         value_bytes(*reduction_, piece.range.begin - range(step).begin);
}

std::byte* ChunkPlaces::output(const Step& step, const Piece& piece) const {
  if (const VectorPlace* const vector = vector_of(piece))
    return vector->output + (piece.range.begin - vector->first) * element_bytes_;
  const Parts& parts = reduction_->parts;
  const auto chunk = static_cast<std::size_t>(step.chunk);
  const std::size_t at = parts.places.empty()
                             ? piece.range.begin - output_of(*reduction_).begin
                             : parts.places[chunk] + (piece.range.begin - layout_->part(chunk).begin);
  return reduction_->output + at * element_bytes_;
}

const std::byte* ChunkPlaces::input(const Piece& piece) const {
  if (const VectorPlace* const vector = vector_of(piece))
    return vector->input + (piece.range.begin - vector->first) * element_bytes_;
  return reduction_->input + (piece.range.begin - input_of(*reduction_).begin) * element_bytes_;
}

// Null: nothing is kept.
std::byte* ChunkPlaces::residual(const Piece& piece) const {
  const VectorPlace* const vector = vector_of(piece);
  std::byte* const arrays = vector != nullptr ? vector->residual : reduction_->residual;
  const std::size_t first = vector != nullptr ? vector->first : kept_of(*reduction_).begin;
  return arrays == nullptr ? nullptr : arrays + value_bytes(*reduction_, piece.range.begin - first);
}

kernels::NoiseIndex ChunkPlaces::noise(const Step& step, const Piece& piece) const {
  const std::size_t index = reduction_->vectors.empty()
                                ? layout_->index(segment_, static_cast<std::size_t>(step.chunk))
                                : layout_->index_in(piece.vector, piece.range.begin);
  return {reduction_->random_key, static_cast<std::uint64_t>(step.sum), index, reduction_->size};
}

// The current values of a piece, in the compute type. If `half` is set, they must be widened from there
// first.
const std::byte* ChunkPlaces::values(const Step& step, const Piece& piece, const std::byte*& half) const {
  const Where where = where_[static_cast<std::size_t>(step.chunk)];
  if (where == Where::accumulator) return accumulator(step, piece);
  const std::byte* const stored = where == Where::output ? output(step, piece) : input(piece);
  if (widened_ == nullptr) return stored;
  half = stored;
  return widened_;
}

ChunkPlaces::Encode ChunkPlaces::encode(const Step& step, const Piece& piece, std::byte* wire) const {
  Encode encode;
  encode.args.x = values(step, piece, encode.half);
  encode.args.residual = residual(piece);
  if (encode.args.residual != nullptr) encode.args.feedback = feedback_of(step);
  encode.widened = widened_;
  encode.args.n = piece.range.n;
  encode.args.params = params_of(*reduction_, step, vector_of(piece));
  encode.args.wire = wire;
  encode.args.noise = noise(step, piece);
  return encode;
}

ChunkPlaces::Decode ChunkPlaces::decode(const Step& step, bool final, const Piece& piece,
                                        std::span<const std::byte> wire) const {
  const bool half = widened_ != nullptr;
  Decode decode;
  decode.args.wire = wire.data();
  decode.args.wire_bytes = wire.size();
  decode.args.n = piece.range.n;
  decode.args.params = params_of(*reduction_, step, vector_of(piece));
  decode.args.noise = noise(step, piece);
  decode.widened = widened_;
  if (step.op == Op::decode_add) decode.args.base = values(step, piece, decode.half);
  decode.args.x = !final ? accumulator(step, piece) : half ? widened_ : output(step, piece);
  decode.args.stream = final && !half && stream_ && reduction_->divisor == 1;
  if (final && half) {
    decode.rounded = output(step, piece);
    // All ranks lose the same by rounding. One rank keeps the loss in its residual: the root, or, without
    // one, by number of the chunk. The sum of estimates is rounded anew in every call, so nothing is lost.
    const int root = reduction_->parts.root;
    const int keeper = root != kNobody ? root : step.chunk % reduction_->size;
    if (!reduction_->memory.keeps_estimates() && keeper == reduction_->rank)
      decode.residual = residual(piece);
  }
  return decode;
}

}  // namespace mq
