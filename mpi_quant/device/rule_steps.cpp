#include "mpi_quant/device/rule_steps.hpp"

#include "mpi_quant/device/steps.hpp"

namespace mq {
namespace {

using kernels::MemoryFunction;

std::size_t tile_bytes(const Reduction& reduction, const Layout& layout) {
  return reduction.memory.ops == nullptr ? 0
                                         : round_up(value_bytes(reduction, layout.max_chunk()), kDeviceLine);
}

// Room for a second message and what join() may read behind it; 0 if there never is one.
std::size_t second_bytes(const Reduction& reduction, const Layout& layout) {
  if (!reduction.memory.keeps_estimates() || reduction.memory.terms.messages == 1) return 0;
  return round_up(reduction.codec->wire_bound(layout.max_chunk(), reduction.element, reduction.params) + 4,
                  kDeviceLine);
}

}  // namespace

std::size_t RuleSteps::device_bytes(const Reduction& reduction, const Layout& layout) {
  return tile_bytes(reduction, layout) + second_bytes(reduction, layout);
}

void RuleSteps::prepare(const Reduction& reduction, const DeviceReduction& device, const Layout& layout,
                        std::byte* memory, std::byte* codec_scratch) {
  reduction_ = &reduction;
  device_ = &device;
  on_host_.prepare(reduction, nullptr);
  tile_scratch_ = memory;
  second_ = memory + tile_bytes(reduction, layout);
  second_bytes_ = second_bytes(reduction, layout);
  codec_scratch_ = codec_scratch;
}

const kernels::DeviceOps& RuleSteps::codec_of(const Step& step) const {
  return is_raw(*reduction_, step) ? *device_->raw_ops : *device_->ops;
}

kernels::DeviceMemory RuleSteps::rule() const {
  return {reduction_->memory.rule, reduction_->element, device_->shape};
}

void RuleSteps::encode(const Step& step, const kernels::EncodeArgs& args, DeviceResult& reported,
                       const kernels::Launcher& launch) const {
  const CallFeedback& memory = reduction_->memory;
  if (memory.messages() == 2) return encode_two(step, args, reported, launch);
  if (!applies_to(step)) {
    codec_of(step).encode({args, &reported.encoded, codec_scratch_, device_->shape}, launch);
  } else if (memory.skipped_messages > 0) {
    reported.encoded = {};
    kernels::MemoryTile tile = tile_at(*reduction_, static_cast<std::byte*>(args.residual), args.n);
    tile.x = args.x;
    rule().run(MemoryFunction::skip, tile, nullptr, launch);
  } else {
    encode_message(step, args, 0, reported.encoded, launch);
  }
}

void RuleSteps::encode_message(const Step& step, const kernels::EncodeArgs& args, int message,
                               kernels::DeviceEncoded& encoded, const kernels::Launcher& launch) const {
  kernels::MemoryTile tile = tile_at(*reduction_, static_cast<std::byte*>(args.residual), args.n);
  tile.x = args.x;
  tile.scratch = tile_scratch_;
  tile.message = message;
  kernels::MemoryTile none = tile;
  none.n = 0;
  const kernels::Operand operand = reduction_->memory.ops->before(none);
  // A rule with estimates that gives the codec x and its first array has prepared nothing
  // (kernels/memory.hpp).
  const bool is_ready =
      reduction_->memory.keeps_estimates() && operand.x == tile.x && operand.residual == tile.array[0];
  if (!is_ready) rule().run(MemoryFunction::before, tile, nullptr, launch);
  kernels::EncodeArgs part = args;
  part.x = operand.x;
  part.residual = operand.residual;
  codec_of(step).encode({part, &encoded, codec_scratch_, device_->shape}, launch);
  rule().run(MemoryFunction::after, tile, nullptr, launch);
}

// A sum has a first message only, and a rank that sends nothing in the first round its own second one only.
void RuleSteps::encode_two(const Step& step, const kernels::EncodeArgs& args, DeviceResult& reported,
                           const kernels::Launcher& launch) const {
  const bool own = applies_to(step);
  const int skipped_messages = own ? reduction_->memory.skipped_messages : 0;
  if (skipped_messages == 2) {
    reported.encoded = {};
    kernels::MemoryTile tile = tile_at(*reduction_, static_cast<std::byte*>(args.residual), args.n);
    tile.x = args.x;
    return rule().run(MemoryFunction::skip, tile, nullptr, launch);
  }
  auto& [first, second] = reported.messages;
  first = second = {};
  kernels::EncodeArgs part = args;
  part.wire += kLengthBytes;
  if (!own)
    codec_of(step).encode({part, &first, codec_scratch_, device_->shape}, launch);
  else if (skipped_messages == 0)
    encode_message(step, part, 0, first, launch);
  const bool follows = own && skipped_messages == 0;
  if (own) {
    if (follows) part.wire = second_;
    part.noise.call = second_of(args.noise.call);
    encode_message(step, part, 1, second, launch);
  }
  rule().join(args.wire, follows ? second_ : nullptr, second_bytes_, &first, &second, &reported.encoded,
              launch);
}

Messages RuleSteps::messages(const kernels::DecodeArgs& args) const {
  if (args.wire_bytes == 0 || reduction_->memory.messages() == 1) return {};
  return messages_of({args.wire, args.wire_bytes});
}

void RuleSteps::decode(const Step& step, const kernels::DecodeArgs& args, const Messages& messages,
                       DeviceResult& reported, const kernels::Launcher& launch) const {
  const CallFeedback& memory = reduction_->memory;
  if (!memory.keeps_estimates()) return decode_message(step, args, reported, launch);
  if (args.wire_bytes == 0 && !memory.exact_restart) {  // an empty payload stands for zeros
    if (args.base != args.x) rule().nothing(args.base, args.x, value_bytes(*reduction_, args.n), launch);
    return;
  }
  if (memory.messages() == 1) return decode_message(step, args, reported, launch);
  if (!messages.ok) {
    reported.malformed = 1;
    return;
  }
  kernels::DecodeArgs part = args;
  part.wire += kLengthBytes;
  part.wire_bytes = messages.first_bytes;
  if (messages.has_first) {
    decode_message(step, part, reported, launch);
    part.base = part.x;
  }
  if (!messages.has_second) return;
  part.wire += messages.first_bytes;
  part.wire_bytes = messages.second_bytes;
  part.noise.call = second_of(args.noise.call);
  decode_message(step, part, reported, launch);
}

void RuleSteps::decode_message(const Step& step, const kernels::DecodeArgs& args, DeviceResult& reported,
                               const kernels::Launcher& launch) const {
  codec_of(step).decode({args, &reported.malformed, codec_scratch_, device_->shape}, launch);
}

void RuleSteps::deliver(Range range, void* x, const kernels::Launcher& launch) const {
  if (!reduction_->memory.keeps_estimates()) return;
  std::byte* const arrays = reduction_->residual + value_bytes(*reduction_, range.begin);
  rule().run(MemoryFunction::deliver, tile_at(*reduction_, arrays, range.n), x, launch);
}

}  // namespace mq
