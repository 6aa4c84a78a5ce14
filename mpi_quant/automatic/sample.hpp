// A sample of a vector, or of several that one call reduces together: runs of consecutive elements from all
// over it, at other places in each call. And what candidates do to it. Each vector is judged alone, so that
// the error of a short one shows beside long ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi_quant/automatic/candidates.hpp"
#include "mpi_quant/automatic/heard.hpp"
#include "mpi_quant/base/arena.hpp"

namespace mq {

// What a sample says if none could be taken: no limit is that high.
Sampled unknown_sample();

struct SampledVector {
  const std::byte* elements;
  std::size_t n;                     // at least one
  const std::byte* waits = nullptr;  // the residual, of as many elements; null: there is none
  bool is_raw = false;               // whatever the candidate is, nothing of it is lost
  bool is_of_group = false;          // of a call of several, also if the others have no elements
};

class Sample {
 public:
  // Takes a sample of vectors in host memory, of f32 or f64. It is so long that a call of call_s seconds
  // takes about a hundredth longer. of_each: but no vector is left out, however many there are; else some of
  // the short ones are, others in each call. number: another one in each call, so that the places differ.
  // Returns false if there is no memory, or no vector.
  bool take(std::span<const SampledVector> vectors, kernels::Element element, double call_s,
            std::uint64_t number, bool of_each);
  // What a candidate does to it. The error is the greatest of the vectors. The error of each vector of a
  // group is taken to be as great as it may become by chance: the sum of short vectors that are independent
  // may be much shorter (L2) than usual.
  // on_each: else only on the vectors that are there without of_each.
  Sampled try_on(const AutoCandidate& candidate, kernels::Isa isa, bool on_each);
  // How many elements a second rated_codec() encodes and decodes, of those in the middle of the vector, where
  // they lie. 0: not known, because there is no memory. Takes two passes over a 128th of the vector, at least
  // 1024 elements each.
  CodecRates rates(const std::byte* vector, std::size_t count, kernels::Element element, kernels::Isa isa);
  // The length (L2) of what waits, in lengths of its vector, by the same elements of it. The greatest of the
  // vectors. One of a group that is zero owes nothing: the next call only delivers what waits for it.
  float debt();
  std::size_t bytes() const { return elements_.bytes() + wire_.bytes() + decoded_.bytes(); }

 private:
  struct Part {
    SampledVector of;
    bool is_drawn;             // it is there without of_each, too
    std::size_t runs, length;  // of the sample; and elements of each run
    std::size_t first;         // in elements_
    std::size_t n() const { return runs * length; }
  };
  void gather(const Part& part, const std::byte* from, std::byte* to) const;
  const std::byte* elements_of(const Part& part) const;
  Sampled try_part(const Part& part, const AutoCandidate& candidate, const kernels::CodecOps& ops);

  Buffer elements_, wire_, decoded_;
  kernels::Element element_ = kernels::Element::f32;
  std::vector<Part> parts_;  // by vector
  std::uint64_t number_ = 0;
};

}  // namespace mq
