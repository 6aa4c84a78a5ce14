#include "mpi_quant/engine/host_steps.hpp"

#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/engine/mean.hpp"

namespace mq {

void HostSteps::prepare(const Reduction& reduction, const Layout& layout, std::byte* scratch) {
  reduction_ = &reduction;
  places_.prepare(reduction, layout, scratch);
  memory_.prepare(reduction, scratch + ChunkPlaces::memory_bytes(reduction, layout));
}

bool HostSteps::encode(const Step& step, const FrameHeader&, std::byte* wire, StepResult& result) {
  const double start = now_s();
  const ChunkPlaces::Encode e = places_.encode(step, wire);
  if (e.half != nullptr) reduction_->convert->widen(e.half, e.widened, e.args.n);
  result.encoded = memory_.encode(step, e.args);
  result.seconds = now_s() - start;
  return false;
}

bool HostSteps::decode(const Step& step, bool final, bool, std::span<const std::byte> wire,
                       StepResult& result) {
  decode_by(step, final, wire, result, [&](const kernels::DecodeArgs& args) {
    return memory_.decode(step, final, places_.range(step), args);
  });
  return false;
}

void HostSteps::decode_sum(std::span<const Step> steps, bool final, std::span<const kernels::WireView> wires,
                           StepResult& result) {
  decode_by(steps[0], final, wires[0], result, [&](const kernels::DecodeArgs& args) {
    return ops_of(*reduction_, steps[0]).decode_sum(args, wires);
  });
}

template <class Codec>
void HostSteps::decode_by(const Step& step, bool final, std::span<const std::byte> wire, StepResult& result,
                          const Codec& codec) {
  const double start = now_s();
  const ChunkPlaces::Decode d = places_.decode(step, final, wire);
  if (d.half != nullptr) reduction_->convert->widen(d.half, d.widened, d.args.n);
  result.decoded = codec(d.args);
  const int divisor = reduction_->divisor;
  if (final && result.decoded == kernels::Decoded::ok) {
    if (d.rounded != nullptr)
      divide_to_half(*reduction_->convert, d.args.x, d.rounded, d.residual, d.args.n, divisor);
    else if (divisor != 1)
      divide(d.args.x, d.args.n, reduction_->element, divisor);
  }
  result.seconds = now_s() - start;
}

void HostBackend::prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines,
                          std::byte* memory, std::size_t stride) {
  if (pipelines_.size() < pipelines) pipelines_.resize(pipelines);
  for (std::size_t i = 0; i < pipelines; ++i) pipelines_[i].prepare(reduction, layout, memory + i * stride);
}

}  // namespace mq
