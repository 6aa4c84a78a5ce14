// Runs a memory rule (kernels/memory.hpp) around the codec, on the processor. A chunk is walked in tiles of whole blocks: the rule
// forms what is encoded, the codec encodes the tile, and the rule updates its arrays, all while the tile is in the cache. So
// each array is read and written once. A vector that is cut at whole blocks encodes to the same bytes, so the wire is that
// of the codec alone.
//
// Of the encodes of a call, those with StepFeedback::carry are a rank's own (with or without what others gave it; a rule that
// encodes_own gets only its own elements). Losses of sums (StepFeedback::deposit) go to the rule's first array by the codec.
//
// Rules with estimates change the wire in two ways. A rank that sends nothing sends empty payloads, which decode to zeros. If a
// rule has two messages, a payload is the length of the first in 8 bytes, the first, and the second. Sums have only a first.
// The last decode of a chunk adds the sum to what all ranks know, which gives the result.
#pragma once

#include <cstddef>

#include "mpi_quant/engine/reduction.hpp"

namespace mq {

class MemorySteps {
 public:
  // Bytes of memory that prepare() needs, a multiple of 64.
  static std::size_t memory_bytes(const Reduction& reduction, const Layout& layout);
  // memory must be at a 64-byte boundary.
  void prepare(const Reduction& reduction, std::byte* memory);
  // Encodes a chunk. args: as for the codec; args.residual is the chunk's part of the rule's first array.
  kernels::Encoded encode(const Step& step, const kernels::EncodeArgs& args) const;
  // Decodes a chunk. range: its elements in the vector. final: no later step writes them.
  kernels::Decoded decode(const Step& step, bool final, Range range, kernels::DecodeArgs args) const;

 private:
  bool applies_to(const Step& step) const {
    return reduction_->memory.ops != nullptr && reduction_->residual != nullptr &&
           step.feedback == StepFeedback::carry;
  }
  kernels::Encoded encode_message(const Step& step, const kernels::EncodeArgs& args, int message) const;
  void stand(const kernels::EncodeArgs& args) const;
  kernels::Decoded decode_messages(const Step& step, const kernels::DecodeArgs& args) const;

  const Reduction* reduction_ = nullptr;
  std::byte* scratch_ = nullptr;
};

// The factor of the rule for this rank's vector (kernels::MemoryOps::factor). Reads reduction.input, which must be in host memory.
double memory_factor(const Reduction& reduction);
// Of a rule with estimates: whether this rank's vector has moved so far from its estimate that it must send, by EstimateTerms::zeta.
// Reads reduction.input and reduction.residual, which must be in host memory.
bool has_moved(const Reduction& reduction);
// A call in which no rank sends anything, without messages: the result is what all ranks know.
void deliver_standing(const Reduction& reduction);

}  // namespace mq
