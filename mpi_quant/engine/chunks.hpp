// The codec's side of a job on the processor: steps that are over when they return. Free of any
// communication; what is read and written is chunk_places.hpp's.
#pragma once

#include <cstddef>
#include <span>

#include "mpi_quant/engine/chunk_places.hpp"
#include "mpi_quant/engine/job.hpp"

namespace mq {

// The values of one segment at a time.
class Chunks {
 public:
  // Bytes of scratch, a multiple of 64.
  static std::size_t scratch_bytes(const Job& job, const Layout& layout) {
    return ChunkPlaces::memory_bytes(job, layout);
  }
  // scratch lies at a 64-byte boundary. Allocates only for a plan with more chunks than any before.
  void prepare(const Job& job, const Layout& layout, std::byte* scratch);
  void start_segment(std::size_t segment) { places_.start_segment(segment); }

  // The steps. wire has room for the codec's bound of the chunk.
  kernels::Encoded encode(const Step& step, std::byte* wire);
  kernels::Decoded decode(const Step& step, bool final, std::span<const std::byte> wire);

 private:
  const Job* job_ = nullptr;
  ChunkPlaces places_;
};

}  // namespace mq
