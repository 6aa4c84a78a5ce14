// Runs a memory rule (kernels/memory.hpp) around the codec, on the processor; device/rule_steps.hpp does on a
// GPU. A chunk is walked in tiles of whole blocks: the rule forms what is encoded, the codec encodes the
// tile, and the rule updates its arrays, all while the tile is in the cache. So each array is read and
// written once. A vector that is cut at whole blocks encodes to the same bytes, so the codec alone would
// write the same wire.
//
// Of the encodes of a call, those with StepFeedback::carry are a rank's own (with or without what others gave
// it; a rule that encodes_own gets only its own elements). Losses of sums (StepFeedback::deposit) go to the
// rule's first array by the codec.
//
// Rules with estimates change the wire in two ways. A rank that sends nothing sends empty payloads, which
// decode to zeros. If a rule has two messages, a payload is the length of the first in 8 bytes, the first,
// and the second. Sums have only a first. The last decode of a chunk adds the sum to what all ranks know,
// which gives the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "mpi_quant/engine/reduction.hpp"

namespace mq {

class MemorySteps {
 public:
  // Bytes of memory that prepare() needs, a multiple of 64.
  static std::size_t memory_bytes(const Reduction& reduction, const Layout& layout);
  // memory must be at a 64-byte boundary.
  void prepare(const Reduction& reduction, std::byte* memory);
  // Encodes a chunk. args: as for the codec; args.residual is the chunk's part of the rule's first array.
  // vector: whose elements these are, if the call is of several vectors; else null.
  kernels::Encoded encode(const Step& step, const kernels::EncodeArgs& args,
                          const VectorPlace* vector = nullptr) const;
  // Decodes a chunk. range: its elements in the vector. final: no later step writes them. vector: as in
  // encode().
  kernels::Decoded decode(const Step& step, bool final, Range range, kernels::DecodeArgs args,
                          const VectorPlace* vector = nullptr) const;

 private:
  bool applies_to(const Step& step, const kernels::EncodeArgs& args) const {
    return reduction_->memory.ops != nullptr && args.residual != nullptr &&
           step.feedback == StepFeedback::carry;
  }
  kernels::Encoded encode_message(const Step& step, const kernels::EncodeArgs& args, int message,
                                  const VectorPlace* vector) const;
  void skip(const kernels::EncodeArgs& args) const;
  kernels::Decoded decode_messages(const Step& step, const kernels::DecodeArgs& args) const;

  const Reduction* reduction_ = nullptr;
  std::byte* scratch_ = nullptr;
};

// What the steps on a device share (device/rule_steps.hpp): a tile of n elements of the vector from the place
// of `arrays` on, which points into the first array that the rule keeps; and the key of random numbers of the
// second message of a payload. vector: as in MemorySteps::encode.
kernels::MemoryTile tile_at(const Reduction& reduction, std::byte* arrays, std::size_t n,
                            const VectorPlace* vector = nullptr);
std::uint64_t second_of(std::uint64_t call);
// The messages of a payload of a rule with two of them. Not ok: no encode writes it. The first one is at
// kLengthBytes.
struct Messages {
  bool ok = false, has_first = false, has_second = false;
  std::size_t first_bytes = 0, second_bytes = 0;
};
Messages messages_of(std::span<const std::byte> payload);

// The factor of the rule for this rank's vector (kernels::MemoryOps::factor). squares(scale): the sum of
// squares of the vector.
double memory_factor(const Reduction& reduction, const std::function<double(double)>& squares);
// Of a rule with estimates: whether this rank's vector has moved so far from its estimate that it must send,
// by EstimateTerms::zeta. distances(scale): the distances of the vector.
bool has_moved(const Reduction& reduction, const std::function<kernels::Distances(double)>& distances);
// The same, where reduction.input and reduction.residual are in host memory.
double memory_factor(const Reduction& reduction);
bool has_moved(const Reduction& reduction);
// A call in which no rank sends anything, without messages: the result is what all ranks know.
void deliver_estimates(const Reduction& reduction);

}  // namespace mq
