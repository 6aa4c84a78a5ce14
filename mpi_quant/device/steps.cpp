#include "mpi_quant/device/steps.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace mq {
namespace {

// Payloads up to this length are read in host memory, because copying so few bytes takes longer than reading
// them there.
constexpr std::size_t kShort = 4096;
constexpr std::uint64_t kNothingWritten = std::numeric_limits<std::uint64_t>::max();

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::size_t scratch_bytes(const Reduction& reduction, const DeviceReduction& device, const Layout& layout) {
  const std::size_t coded = device.ops->scratch_bytes(layout.max_chunk(), reduction.params);
  const std::size_t raw = reduction.facts->raw ? device.raw_ops->scratch_bytes(layout.max_chunk(), {}) : 0;
  return aligned(std::max(coded, raw));
}

std::size_t wire_bytes(const Reduction& reduction, const DeviceReduction& device, const Layout& layout) {
  const auto frames = static_cast<std::size_t>(device.device_wire ? reduction.plan->slots : 1);
  return aligned(frames * slot_bytes_of(reduction, layout));
}

}  // namespace

std::size_t DeviceSteps::device_bytes(const Reduction& reduction, const DeviceReduction& device,
                                      const Layout& layout) {
  return aligned(ChunkPlaces::memory_bytes(reduction, layout)) + scratch_bytes(reduction, device, layout) +
         wire_bytes(reduction, device, layout);
}

std::size_t DeviceSteps::pinned_bytes(const Reduction& reduction) {
  return (static_cast<std::size_t>(reduction.plan->slots) * sizeof(DeviceResult) + 63) / 64 * 64;
}

void DeviceSteps::prepare(const Reduction& reduction, const DeviceReduction& device, const Layout& layout,
                          const DevicePipeline& pipeline, std::byte* results) {
  reduction_ = &reduction;
  device_ = &device;
  pipeline_ = pipeline;
  places_.prepare(reduction, layout, pipeline.memory);
  scratch_ = pipeline.memory + aligned(ChunkPlaces::memory_bytes(reduction, layout));
  wire_ = scratch_ + scratch_bytes(reduction, device, layout);
  bound_ = slot_bytes_of(reduction, layout) - sizeof(FrameHeader);
  results_ = {reinterpret_cast<DeviceResult*>(results), static_cast<std::size_t>(reduction.plan->slots)};
  std::fill(results_.begin(), results_.end(), DeviceResult{});
  launched_.clear();  // an earlier reduction that outlasted its execution may have left some
  launched_.reserve(reduction.plan->steps.size());
}

bool DeviceSteps::encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result) {
  const ChunkPlaces::Encode e = places_.encode(step, wire);
  if (e.args.n == 0) {  // the device has nothing to do
    result.encoded = ops_of(*reduction_, step).encode(e.args);
    return false;
  }
  return launched(step, launch(step, e, header), result);
}

Status DeviceSteps::launch(const Step& step, const ChunkPlaces::Encode& e, const FrameHeader& header) {
  const DeviceReduction& device = *device_;
  const kernels::Launcher launcher = device.api->launcher(pipeline_.stream);
  DeviceResult& reported = result_of(step);
  reported.encoded = {kNothingWritten, 0};
  std::memcpy(reported.head.data(), &header, reported.head.size());
  MQ_TRY(begin(step));
  if (e.half != nullptr) device.convert->widen(e.half, e.widened, e.args.n, device.shape, launcher);
  device.ops_of(step).encode({e.args, &reported.encoded, scratch_, device.shape}, launcher);
  if (!device.device_wire) return {};
  return device.api->copy(pipeline_.stream, e.args.wire - sizeof header, &reported, sizeof header);
}

bool DeviceSteps::decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
                         StepResult& result) {
  const ChunkPlaces::Decode d = places_.decode(step, final, wire);
  if (d.args.n == 0 && !fetches_header) {  // the device has nothing to do
    result.decoded = ops_of(*reduction_, step).decode(d.args);
    return false;
  }
  return launched(step, launch(step, d, fetches_header), result);
}

Status DeviceSteps::launch(const Step& step, ChunkPlaces::Decode d, bool fetches_header) {
  const DeviceReduction& device = *device_;
  const kernels::Launcher launcher = device.api->launcher(pipeline_.stream);
  DeviceResult& reported = result_of(step);
  MQ_TRY(begin(step));
  if (fetches_header)
    MQ_TRY(device.api->copy(pipeline_.stream, reported.received.data(), d.args.wire - sizeof(FrameHeader),
                            sizeof(FrameHeader)));
  if (d.args.n == 0) {  // no codec writes a payload for it
    reported.malformed = d.args.wire_bytes > 0;
    return {};
  }
  if (d.half != nullptr) device.convert->widen(d.half, d.widened, d.args.n, device.shape, launcher);
  if (d.args.wire_bytes > kShort && !device.device_wire) {
    MQ_TRY(device.api->copy(pipeline_.stream, wire_, d.args.wire, d.args.wire_bytes));
    d.args.wire = wire_;
  }
  device.ops_of(step).decode({d.args, &reported.malformed, scratch_, device.shape}, launcher);
  if (d.rounded != nullptr)
    device.convert->narrow(d.args.x, d.rounded, d.residual, d.args.n, device.shape, launcher);
  return {};
}

Status DeviceSteps::begin(const Step& step) const {
  return device_->is_timed ? device_->api->record(beginning_of(step), pipeline_.stream) : Status{};
}

bool DeviceSteps::launched(const Step& step, Status status, StepResult& result) {
  const DeviceApi& api = *device_->api;
  Status launch = api.launch_error(pipeline_.stream);  // reading it clears it
  if (status.ok()) status = std::move(launch);
  if (status.ok()) status = api.record(end_of(step), pipeline_.stream);
  if (status.ok()) {
    launched_.push_back(&step);
    return true;
  }
  (void)api.synchronize(pipeline_.stream);  // launched work must not outlive the call
  result.status = std::move(status);
  return false;
}

const Step* DeviceSteps::over(StepResult& result) {
  result = {};
  if (launched_.empty()) return nullptr;
  const Step* const first = launched_.front();
  if (!is_over(*first, result)) return nullptr;
  launched_.erase(launched_.begin());
  return first;
}

bool DeviceSteps::is_encoding() const {
  return std::any_of(launched_.begin(), launched_.end(),
                     [](const Step* launched) { return launched->op == Op::encode; });
}

bool DeviceSteps::holds_up(const Step& step) const {
  const bool is_exchange = step.op == Op::exchange;
  return std::any_of(launched_.begin(), launched_.end(), [&](const Step* earlier) {
    if (!is_exchange) return earlier->slot == step.slot;
    return (step.to != kNobody && earlier->op == Op::encode && earlier->slot == step.slot) ||
           (step.from != kNobody && earlier->slot == step.recv_slot);
  });
}

bool DeviceSteps::is_over(const Step& step, StepResult& result) {
  const DeviceApi& api = *device_->api;
  bool done = false;
  result.status = api.query(end_of(step), done);
  if (!result.status.ok()) {
    (void)api.synchronize(pipeline_.stream);
    return true;
  }
  if (!done) return false;
  if (device_->is_timed) (void)api.elapsed(beginning_of(step), end_of(step), result.seconds);  // 0 if unknown
  DeviceResult& reported = result_of(step);
  if (step.op != Op::encode) {
    if (reported.malformed != 0) result.decoded = kernels::Decoded::malformed;
    reported.malformed = 0;
  } else if (reported.encoded.bytes > bound_) {
    result.status = {Code::device_failed, "the GPU did not report the length of a frame"};
  } else {
    result.encoded = {static_cast<std::size_t>(reported.encoded.bytes), reported.encoded.nonfinite,
                      reported.encoded.overflows};
  }
  return true;
}

void DeviceBackend::prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines,
                            std::byte* memory, std::size_t stride) {
  if (pipelines_.size() < pipelines) pipelines_.resize(pipelines);
  n_pipelines_ = pipelines;
  for (std::size_t i = 0; i < pipelines; ++i)
    pipelines_[i].prepare(reduction, device_reduction, layout, device_reduction.pipelines[i],
                          memory + i * stride);
}

}  // namespace mq
