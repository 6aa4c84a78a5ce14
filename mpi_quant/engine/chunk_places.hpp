// Keeps track of where the values of a segment's chunks are between two steps, and so of what an encode or a
// decode reads and writes. It handles pointers only, to host or device memory. HostSteps and DeviceSteps
// share it.
//
// A chunk is read from the input until a step writes it. If several steps write it, only the last writes the
// output, around the caches if the vector is long. Earlier ones write an accumulator that stays in L2. So
// main memory is written once. Vectors of half types are widened when they are read and rounded once, at the
// end: sums are accumulated in float, and the loss of the rounding goes to the residual of one rank.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mpi_quant/engine/reduction.hpp"

namespace mq {

class ChunkPlaces {
 public:
  // An encode. half: elements to widen to `widened` (which is args.x) before it; null if there are none.
  struct Encode {
    kernels::EncodeArgs args;
    const std::byte* half = nullptr;
    std::byte* widened = nullptr;
  };
  // A decode. half: elements to widen to `widened` (which is args.base) before it. rounded: where to write
  // the rounded args.x after it. residual: gets the loss of the rounding. Each is null if there is nothing to
  // do. The last decode of a mean is followed by a division of args.x (mean.hpp).
  struct Decode {
    kernels::DecodeArgs args;
    const std::byte* half = nullptr;
    std::byte* widened = nullptr;
    std::byte* rounded = nullptr;
    std::byte* residual = nullptr;
  };

  // What one encode or decode handles: a chunk, or what it holds of one of several vectors.
  struct Piece {
    Range range;
    std::size_t vector = 0;  // number in Reduction::vectors, if there are any
  };

  // Bytes of memory that prepare() needs, a multiple of 64.
  static std::size_t memory_bytes(const Reduction& reduction, const Layout& layout);
  // memory must be at a 64-byte boundary. Allocates only for a plan with more chunks than any before.
  void prepare(const Reduction& reduction, const Layout& layout, std::byte* memory);
  void start_segment(std::size_t segment);
  Range range(const Step& step) const {
    return layout_->chunk(segment_, static_cast<std::size_t>(step.chunk));
  }

  // Calls f for each piece of the step's chunk, if the call is of several vectors.
  template <class F>
  void for_each_piece(const Step& step, const F& f) const {
    layout_->for_each_vector(range(step), [&](std::size_t vector, Range part) { f(Piece{part, vector}); });
  }
  const VectorPlace* vector_of(const Piece& piece) const {
    return reduction_->vectors.empty() ? nullptr : &reduction_->vectors[piece.vector];
  }

  // What each step reads and writes. To be called in the order of the plan. written(): once per decode, after
  // the last piece.
  Encode encode(const Step& step, const Piece& piece, std::byte* wire) const;
  Decode decode(const Step& step, bool final, const Piece& piece, std::span<const std::byte> wire) const;
  void written(const Step& step, bool final) {
    where_[static_cast<std::size_t>(step.chunk)] = final ? Where::output : Where::accumulator;
  }
  // The same for a whole chunk.
  Encode encode(const Step& step, std::byte* wire) const { return encode(step, {range(step)}, wire); }
  Decode decode(const Step& step, bool final, std::span<const std::byte> wire) {
    const Decode all = decode(step, final, {range(step)}, wire);
    written(step, final);
    return all;
  }

 private:
  enum class Where : char { input, accumulator, output };
  std::byte* accumulator(const Step& step, const Piece& piece) const;
  std::byte* output(const Step& step, const Piece& piece) const;
  const std::byte* input(const Piece& piece) const;
  std::byte* residual(const Piece& piece) const;
  kernels::NoiseIndex noise(const Step& step, const Piece& piece) const;
  const std::byte* values(const Step& step, const Piece& piece, const std::byte*& half) const;

  const Reduction* reduction_ = nullptr;
  const Layout* layout_ = nullptr;
  std::byte* widened_ = nullptr;       // half types: a chunk as floats
  std::byte* accumulators_ = nullptr;  // the plan's accumulators, each as long as a chunk
  std::size_t accumulator_bytes_ = 0, element_bytes_ = 4, segment_ = 0;
  bool stream_ = false;
  std::vector<Where> where_;  // by chunk
};

}  // namespace mq
