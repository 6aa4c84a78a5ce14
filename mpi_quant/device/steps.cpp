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

std::size_t scratch_bytes(const Reduction& reduction, const DeviceReduction& device, const Layout& layout) {
  const std::size_t coded = device.ops->scratch_bytes(layout.max_chunk(), reduction.params);
  const std::size_t raw = may_be_raw(reduction) ? device.raw_ops->scratch_bytes(layout.max_chunk(), {}) : 0;
  return round_up(std::max(coded, raw), kDeviceLine);
}

std::size_t wire_bytes(const Reduction& reduction, const DeviceReduction& device, const Layout& layout) {
  const auto frames = static_cast<std::size_t>(device.device_wire ? reduction.plan->slots : 1);
  return round_up(frames * slot_bytes_of(reduction, layout), kDeviceLine);
}

}  // namespace

std::size_t DeviceSteps::device_bytes(const Reduction& reduction, const DeviceReduction& device,
                                      const Layout& layout) {
  return round_up(ChunkPlaces::memory_bytes(reduction, layout), kDeviceLine) +
         scratch_bytes(reduction, device, layout) + RuleSteps::device_bytes(reduction, layout) +
         wire_bytes(reduction, device, layout);
}

std::size_t DeviceSteps::pinned_bytes(const Reduction& reduction) {
  return round_up(static_cast<std::size_t>(reduction.plan->slots) * sizeof(DeviceResult), kHostLine);
}

void DeviceSteps::prepare(const Reduction& reduction, const DeviceReduction& device, const Layout& layout,
                          const DevicePipeline& pipeline, DeviceGroup& group, std::byte* results) {
  reduction_ = &reduction;
  device_ = &device;
  pipeline_ = pipeline;
  group_ = &group;
  places_.prepare(reduction, layout, pipeline.memory);
  std::byte* const scratch =
      pipeline.memory + round_up(ChunkPlaces::memory_bytes(reduction, layout), kDeviceLine);
  std::byte* const of_rules = scratch + scratch_bytes(reduction, device, layout);
  rules_.prepare(reduction, device, layout, of_rules, scratch);
  wire_ = of_rules + RuleSteps::device_bytes(reduction, layout);
  bound_ = slot_bytes_of(reduction, layout) - sizeof(FrameHeader);
  results_ = {reinterpret_cast<DeviceResult*>(results), static_cast<std::size_t>(reduction.plan->slots)};
  std::fill(results_.begin(), results_.end(), DeviceResult{});
  launched_.clear();  // an earlier reduction that outlasted its execution may have left some
  launched_.reserve(reduction.plan->steps.size());
}

bool DeviceSteps::encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result) {
  const ChunkPlaces::Encode e = places_.encode(step, wire);
  if (e.args.n == 0) {  // the device has nothing to do
    result.encoded = rules_.encode_none(step, e.args);
    return false;
  }
  launch(step, e, header);
  return true;
}

void DeviceSteps::launch(const Step& step, const ChunkPlaces::Encode& e, const FrameHeader& header) {
  const DeviceReduction& device = *device_;
  launched_.push_back({&step});
  group_->begin(*this);
  const kernels::Launcher launcher = group_->batch().launcher();
  DeviceResult& reported = result_of(step);
  reported.encoded = {kNothingWritten, 0};
  std::memcpy(reported.head.data(), &header, reported.head.size());
  if (e.half != nullptr) device.convert->widen(e.half, e.widened, e.args.n, device.shape, launcher);
  rules_.encode(step, e.args, reported, launcher);
  if (device.device_wire) group_->batch().copy(e.args.wire - sizeof header, &reported, sizeof header);
}

bool DeviceSteps::decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
                         StepResult& result) {
  const ChunkPlaces::Decode d = places_.decode(step, final, wire);
  if (d.args.n == 0 && !fetches_header) {  // the device has nothing to do
    result.decoded = rules_.decode_none(step, d.args);
    return false;
  }
  launch(step, d, final, fetches_header);
  return true;
}

void DeviceSteps::launch(const Step& step, ChunkPlaces::Decode d, bool final, bool fetches_header) {
  const DeviceReduction& device = *device_;
  launched_.push_back({&step});
  group_->begin(*this);
  const kernels::Launcher launcher = group_->batch().launcher();
  DeviceResult& reported = result_of(step);
  if (fetches_header)
    group_->batch().copy(reported.received.data(), d.args.wire - sizeof(FrameHeader), sizeof(FrameHeader));
  if (d.args.n == 0) {  // no codec writes a payload for it
    reported.malformed = d.args.wire_bytes > 0;
    return;
  }
  if (d.half != nullptr) device.convert->widen(d.half, d.widened, d.args.n, device.shape, launcher);
  const Messages messages = rules_.messages(d.args);
  if (d.args.wire_bytes > kShort && !device.device_wire && !rules_.codec_of(step).reads_once) {
    kernels::device_bring(wire_, d.args.wire, d.args.wire_bytes, bound_, launcher);
    d.args.wire = wire_;
  }
  rules_.decode(step, d.args, messages, reported, launcher);
  if (final) rules_.deliver(places_.range(step), d.args.x, launcher);
  if (d.rounded != nullptr)
    device.convert->narrow(d.args.x, d.rounded, d.residual, d.args.n, reduction_->divisor, device.shape,
                           launcher);
  else if (final && reduction_->divisor != 1)
    kernels::device_divide(d.args.x, d.args.n, reduction_->element, reduction_->divisor, device.shape,
                           launcher);
}

void DeviceSteps::was_launched(const Status& status, DeviceEvent* beginning, DeviceEvent* end,
                               std::size_t number, std::size_t steps) {
  launched_.back() = {launched_.back().step, beginning, end, number, steps, status};
}

void DeviceGroup::prepare(const DeviceReduction& device, DeviceStream* stream, std::size_t most) {
  launched_ = over_ = 0;
  failure_ = {};
  ends_.resize(most);
  device_ = &device;
  stream_ = stream;
  batch_.prepare(*device.api, stream);
  begun_.clear();
  begun_.reserve(LaunchBatch::kMostSegments);
}

void DeviceGroup::begin(DeviceSteps& steps) {
  begun_.push_back(&steps);
  batch_.begin_segment();
}

bool DeviceGroup::launch() {
  if (begun_.empty()) return true;
  const DeviceApi& api = *device_->api;
  DeviceEvent* const beginning = device_->is_timed ? begun_.front()->beginning_of_last() : nullptr;
  DeviceEvent* const end = begun_.front()->end_of_last();
  Status status = device_->is_timed ? api.record(beginning, stream_) : Status{};
  Status launched = batch_.flush();
  if (status.ok()) status = std::move(launched);
  if (status.ok()) status = api.record(end, stream_);
  if (!status.ok()) (void)api.synchronize(stream_);  // launched work must not outlive the call
  for (DeviceSteps* const steps : begun_)
    steps->was_launched(status, beginning, end, launched_, begun_.size());
  if (status.ok()) end_of(launched_++) = end;
  begun_.clear();
  return status.ok();
}

void DeviceGroup::look() {
  const DeviceApi& api = *device_->api;
  for (bool done = true; failure_.ok() && done && is_busy(); over_ += done)
    failure_ = api.query(end_of(over_), done);
  if (failure_.ok() || !is_busy()) return;
  (void)api.synchronize(stream_);
  first_failed_ = std::exchange(over_, launched_);
}

const Status& DeviceGroup::failure_of(std::size_t launch) const {
  static const Status ok;
  return failure_.ok() || launch < first_failed_ ? ok : failure_;
}

const Step* DeviceSteps::over(StepResult& result) {
  result = {};
  if (launched_.empty()) return nullptr;
  const Step* const first = launched_.front().step;
  if (!is_over(launched_.front(), result)) return nullptr;
  launched_.erase(launched_.begin());
  return first;
}

bool DeviceSteps::is_encoding() const {
  return std::any_of(launched_.begin(), launched_.end(),
                     [](const Launched& launched) { return launched.step->op == Op::encode; });
}

bool DeviceSteps::holds_up(const Step& step) const {
  const bool is_exchange = step.op == Op::exchange;
  return std::any_of(launched_.begin(), launched_.end(), [&](const Launched& launched) {
    const Step* const earlier = launched.step;
    if (!is_exchange) return earlier->slot == step.slot;
    return (step.to != kNobody && earlier->op == Op::encode && earlier->slot == step.slot) ||
           (step.from != kNobody && earlier->slot == step.recv_slot);
  });
}

bool DeviceSteps::is_over(const Launched& launched, StepResult& result) {
  const DeviceApi& api = *device_->api;
  const Step& step = *launched.step;
  result.status = launched.status;
  if (!result.status.ok()) return true;
  if (!group_->is_over(launched.number)) return false;
  result.status = group_->failure_of(launched.number);
  if (!result.status.ok()) return true;
  if (device_->is_timed &&
      api.elapsed(launched.beginning, launched.end, result.seconds).ok())  // else unknown
    result.seconds /= static_cast<double>(launched.steps);
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

void DeviceBackend::look() {
  const std::span<DeviceGroup> groups(groups_.data(), n_groups_);
  if (std::none_of(groups.begin(), groups.end(), [](const DeviceGroup& g) { return g.is_busy(); })) return;
  const HoldDevice hold(*device_reduction.api, device_reduction.device);
  for (DeviceGroup& group : groups) group.look();
}

bool DeviceBackend::launch() {
  const HoldDevice hold(*device_reduction.api, device_reduction.device);
  bool ok = true;
  for (std::size_t i = 0; i < n_groups_; ++i) ok = groups_[i].launch() && ok;
  return ok;
}

void DeviceBackend::prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines,
                            std::byte* memory, std::size_t stride) {
  if (pipelines_.size() < pipelines) pipelines_.resize(pipelines);
  n_pipelines_ = pipelines;
  const std::size_t of_stream = pipelines_of_stream(pipelines);
  n_groups_ = (pipelines + of_stream - 1) / of_stream;
  if (groups_.size() < n_groups_) groups_.resize(n_groups_);
  for (std::size_t i = 0; i < n_groups_; ++i)
    groups_[i].prepare(device_reduction, device_reduction.pipelines[i * of_stream].stream,
                       of_stream * reduction.plan->steps.size());
  for (std::size_t i = 0; i < pipelines; ++i)
    pipelines_[i].prepare(reduction, device_reduction, layout, device_reduction.pipelines[i],
                          groups_[i / of_stream], memory + i * stride);
}

}  // namespace mq
