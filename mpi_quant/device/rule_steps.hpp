// Runs a memory rule around the codec, on a device: what engine/memory_steps.hpp does on the processor, with
// the same bytes. A chunk is one tile. The rule has kernels of its own before and after the codec's
// (kernels/cuda/memory.cuh).
//
// If a rule has two messages, the second one is encoded into memory of the device, and a kernel then copies
// it behind the first one, because the processor does not know the length of that. So frames of such a call
// are in host memory: where it decodes, the processor must read the length.
#pragma once

#include <cstddef>

#include "kernels/device.hpp"
#include "mpi_quant/engine/memory_steps.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq {

struct DeviceReduction;
struct DeviceResult;

class RuleSteps {
 public:
  // Bytes of memory on the device that prepare() needs, a multiple of 256.
  static std::size_t device_bytes(const Reduction& reduction, const Layout& layout);
  void prepare(const Reduction& reduction, const DeviceReduction& device, const Layout& layout,
               std::byte* memory, std::byte* codec_scratch);
  // The codec that a step runs with.
  const kernels::DeviceOps& codec_of(const Step& step) const;
  // A chunk without elements: the device has nothing to do.
  kernels::Encoded encode_none(const Step& step, const kernels::EncodeArgs& args) const {
    return on_host_.encode(step, args);
  }
  kernels::Decoded decode_none(const Step& step, const kernels::DecodeArgs& args) const {
    return on_host_.decode(step, false, {}, args);
  }
  // Launches the encode of a chunk. args as for MemorySteps; the result goes to `reported`.
  void encode(const Step& step, const kernels::EncodeArgs& args, DeviceResult& reported,
              const kernels::Launcher& launch) const;
  // The messages of a payload that is in host memory. Call it before the payload is copied.
  Messages messages(const kernels::DecodeArgs& args) const;
  // Launches the decode of a chunk, whose payload may be anywhere.
  void decode(const Step& step, const kernels::DecodeArgs& args, const Messages& messages,
              DeviceResult& reported, const kernels::Launcher& launch) const;
  // After the last decode of a chunk, which has written x.
  void deliver(Range range, void* x, const kernels::Launcher& launch) const;

 private:
  bool applies_to(const Step& step) const {
    return reduction_->memory.ops != nullptr && reduction_->residual != nullptr &&
           step.feedback == StepFeedback::carry;
  }
  kernels::DeviceMemory rule() const;
  void encode_message(const Step& step, const kernels::EncodeArgs& args, int message,
                      kernels::DeviceEncoded& encoded, const kernels::Launcher& launch) const;
  void encode_two(const Step& step, const kernels::EncodeArgs& args, DeviceResult& reported,
                  const kernels::Launcher& launch) const;
  void decode_message(const Step& step, const kernels::DecodeArgs& args, DeviceResult& reported,
                      const kernels::Launcher& launch) const;

  const Reduction* reduction_ = nullptr;
  const DeviceReduction* device_ = nullptr;
  MemorySteps on_host_;
  std::byte *tile_scratch_ = nullptr, *second_ = nullptr, *codec_scratch_ = nullptr;
  std::size_t second_bytes_ = 0;
};

}  // namespace mq
