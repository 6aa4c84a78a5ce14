// A sample of a vector: runs of consecutive elements from all over it, at other places in each call. And what
// candidates do to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi_quant/automatic/candidates.hpp"
#include "mpi_quant/automatic/heard.hpp"
#include "mpi_quant/base/arena.hpp"

namespace mq {

// What a sample says if none could be taken: no limit is that high.
Sampled unknown_sample();

class Sample {
 public:
  // Takes a sample of a vector in host memory, of f32 or f64, with at least one element. It is so long that a
  // call of call_s seconds takes about a hundredth longer. number: another one in each call, so that the
  // places differ. Returns false if there is no memory.
  bool take(const std::byte* vector, std::size_t count, kernels::Element element, double call_s,
            std::uint64_t number);
  // What a candidate does to it.
  Sampled try_on(const AutoCandidate& candidate, kernels::Isa isa);
  // How many elements a second rated_codec() encodes and decodes, of those in the middle of the vector, where
  // they lie. 0: not known, because there is no memory. Takes two passes over a 128th of the vector, at least
  // 1024 elements each.
  CodecRates rates(const std::byte* vector, std::size_t count, kernels::Element element, kernels::Isa isa);
  // The length (L2) of a residual of as many elements, in lengths of the vector, by the same elements of it.
  float debt(const std::byte* residual);

 private:
  void gather(const std::byte* from, std::byte* to) const;

  Buffer elements_, wire_, decoded_;
  kernels::Element element_ = kernels::Element::f32;
  std::size_t count_ = 0, runs_ = 0, length_ = 0;  // of the vector; of the sample: runs, and elements of each
  std::uint64_t number_ = 0;
};

}  // namespace mq
