// The codec steps of a reduction on the processor. Each step is over when its function returns.
// chunk_places.hpp says what a step reads and writes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mpi_quant/engine/backend.hpp"
#include "mpi_quant/engine/chunk_places.hpp"
#include "mpi_quant/engine/memory_steps.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq {

class HostSteps final : public Steps {
 public:
  // scratch has memory_bytes() bytes at a 64-byte boundary. Allocates only for a plan with more
  // chunks than any before.
  void prepare(const Reduction& reduction, const Layout& layout, std::byte* scratch);
  static std::size_t memory_bytes(const Reduction& reduction, const Layout& layout) {
    return ChunkPlaces::memory_bytes(reduction, layout) + MemorySteps::memory_bytes(reduction, layout);
  }
  void start_segment(std::size_t segment) override { places_.start_segment(segment); }
  bool encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result) override;
  bool decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
              StepResult& result) override;
  void decode_sum(std::span<const Step> steps, bool final, std::span<const kernels::WireView> wires,
                  StepResult& result) override;

 private:
  using Piece = ChunkPlaces::Piece;
  kernels::Encoded encode_piece(const Step& step, const Piece& piece, std::byte* wire) const;
  kernels::Encoded encode_vectors(const Step& step, std::byte* wire) const;
  // codec(args, range, wires): decodes a piece of the frame or the frames.
  template <class Codec>
  void decode_by(const Step& step, bool final, std::span<const kernels::WireView> wires, StepResult& result,
                 const Codec& codec);

  const Reduction* reduction_ = nullptr;
  ChunkPlaces places_;
  MemorySteps memory_;
  std::size_t room_ = 0;  // bytes of the longest payload
};

class HostBackend final : public Backend {
 public:
  std::size_t pipeline_bytes(const Reduction& reduction, const Layout& layout) const override {
    return HostSteps::memory_bytes(reduction, layout);
  }
  void prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines, std::byte* memory,
               std::size_t stride) override;
  Steps& pipeline(std::size_t i) override { return pipelines_[i]; }
  std::size_t most_summed(const Reduction& reduction) const override {
    return reduction.memory.keeps_estimates() || reduction.ops->decode_sum == nullptr ? 1
                                                                                      : kernels::kMostSummed;
  }

 private:
  std::vector<HostSteps> pipelines_;
};

}  // namespace mq
