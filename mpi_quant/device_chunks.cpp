#include "mpi_quant/device_chunks.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "mpi_quant/base/ticks.hpp"

namespace mq {
namespace {

// Payloads up to this length are read where they are: a copy of so few bytes takes longer than they do.
constexpr std::size_t kShort = 4096;
constexpr std::uint64_t kNothingWritten = std::numeric_limits<std::uint64_t>::max();

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::size_t scratch_bytes(const Job& job, const Layout& layout) {
  const std::size_t coded = job.device->ops->scratch_bytes(layout.max_chunk(), job.params);
  const std::size_t raw = job.facts->raw ? job.device->raw_ops->scratch_bytes(layout.max_chunk(), {}) : 0;
  return aligned(std::max(coded, raw));
}

std::size_t wire_bytes(const Job& job, const Layout& layout) {
  const auto frames = static_cast<std::size_t>(job.device->device_wire ? job.plan->slots : 1);
  return aligned(frames * slot_bytes_of(job, layout));
}

}  // namespace

std::size_t DeviceChunks::device_bytes(const Job& job, const Layout& layout) {
  return aligned(ChunkPlaces::memory_bytes(job, layout)) + scratch_bytes(job, layout) +
         wire_bytes(job, layout);
}

std::size_t DeviceChunks::pinned_bytes(const Job& job) {
  return (static_cast<std::size_t>(job.plan->slots) * sizeof(DeviceResult) + 63) / 64 * 64;
}

void DeviceChunks::prepare(const Job& job, const Layout& layout, const DeviceLane& lane, std::byte* results) {
  job_ = &job;
  lane_ = lane;
  places_.prepare(job, layout, lane.memory);
  scratch_ = lane.memory + aligned(ChunkPlaces::memory_bytes(job, layout));
  wire_ = scratch_ + scratch_bytes(job, layout);
  bound_ = slot_bytes_of(job, layout) - sizeof(FrameHeader);
  results_ = {reinterpret_cast<DeviceResult*>(results), static_cast<std::size_t>(job.plan->slots)};
  std::fill(results_.begin(), results_.end(), DeviceResult{});
  forget();
  launched_.reserve(job.plan->steps.size());
}

bool DeviceChunks::encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result) {
  const double begun = now_s();
  const ChunkPlaces::Encode e = places_.encode(step, wire);
  if (e.args.n == 0) {  // nothing for a device to do
    result.encoded = ops_of(*job_, step).encode(e.args);
    return false;
  }
  const DeviceJob& device = *job_->device;
  const kernels::Launcher launcher = device.api->launcher(lane_.stream);
  DeviceResult& told = result_of(step);
  told.encoded = {kNothingWritten, 0};
  std::memcpy(told.head.data(), &header, told.head.size());
  if (e.half != nullptr) device.convert->widen(e.half, e.widened, e.args.n, device.shape, launcher);
  device_ops_of(*job_, step).encode({e.args, &told.encoded, scratch_, device.shape}, launcher);
  Status status;
  if (device.device_wire) status = device.api->copy(lane_.stream, wire - sizeof header, &told, sizeof header);
  return launched(step, begun, std::move(status), result);
}

bool DeviceChunks::decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
                          StepResult& result) {
  const double begun = now_s();
  const ChunkPlaces::Decode d = places_.decode(step, final, wire);
  const DeviceJob& device = *job_->device;
  DeviceResult& told = result_of(step);
  Status status;
  if (fetches_header) {
    status = device.api->copy(lane_.stream, told.received.data(), wire.data() - sizeof(FrameHeader),
                              sizeof(FrameHeader));
  } else if (d.args.n == 0) {  // nothing for a device to do
    result.decoded = ops_of(*job_, step).decode(d.args);
    return false;
  }
  if (d.args.n == 0 && !wire.empty()) told.malformed = 1;
  if (d.args.n > 0 && status.ok()) status = launch(step, d, told);
  return launched(step, begun, std::move(status), result);
}

Status DeviceChunks::launch(const Step& step, ChunkPlaces::Decode d, DeviceResult& told) {
  const DeviceJob& device = *job_->device;
  const kernels::Launcher launcher = device.api->launcher(lane_.stream);
  if (d.half != nullptr) device.convert->widen(d.half, d.widened, d.args.n, device.shape, launcher);
  if (d.args.wire_bytes > kShort && !device.device_wire) {
    MQ_TRY(device.api->copy(lane_.stream, wire_, d.args.wire, d.args.wire_bytes));
    d.args.wire = wire_;
  }
  device_ops_of(*job_, step).decode({d.args, &told.malformed, scratch_, device.shape}, launcher);
  if (d.rounded != nullptr)
    device.convert->narrow(d.args.x, d.rounded, d.residual, d.args.n, device.shape, launcher);
  return {};
}

// What comes after the launches of a step, of which `status` is what is known so far.
bool DeviceChunks::launched(const Step& step, double begun, Status status, StepResult& result) {
  const DeviceApi& api = *job_->device->api;
  Status launch = api.launch_error(lane_.stream);  // forgets it
  if (status.ok()) status = std::move(launch);
  if (status.ok()) status = api.record(lane_.events[static_cast<std::size_t>(step.slot)], lane_.stream);
  if (status.ok()) {
    launched_.push_back({&step, begun});
    return true;
  }
  (void)api.synchronize(lane_.stream);  // what was launched must not outlive the call
  result.status = std::move(status);
  return false;
}

const Step* DeviceChunks::over(StepResult& result) {
  result = {};
  if (launched_.empty()) return nullptr;
  const Launched first = launched_.front();
  if (!is_over(*first.step, result)) return nullptr;
  launched_.erase(launched_.begin());
  const double now = now_s();
  result.seconds = now - std::max(first.begun, last_end_);  // a lane's steps do not overlap
  last_end_ = now;
  return first.step;
}

bool DeviceChunks::is_encoding() const {
  return std::any_of(launched_.begin(), launched_.end(),
                     [](const Launched& launched) { return launched.step->op == Op::encode; });
}

bool DeviceChunks::holds_up(const Step& step) const {
  const bool reads = step.op != Op::exchange || step.to != kNobody;
  const bool receives = step.op == Op::exchange && step.from != kNobody;
  return std::any_of(launched_.begin(), launched_.end(), [&](const Launched& launched) {
    const Step& earlier = *launched.step;
    return (reads && earlier.op == Op::encode && earlier.slot == step.slot) ||
           (receives && earlier.slot == step.recv_slot);
  });
}

bool DeviceChunks::is_over(const Step& step, StepResult& result) {
  const DeviceApi& api = *job_->device->api;
  bool done = false;
  result.status = api.query(lane_.events[static_cast<std::size_t>(step.slot)], done);
  if (!result.status.ok()) {
    (void)api.synchronize(lane_.stream);
    return true;
  }
  if (!done) return false;
  DeviceResult& told = result_of(step);
  if (step.op != Op::encode) {
    if (told.malformed != 0) result.decoded = kernels::Decoded::malformed;
    told.malformed = 0;
  } else if (told.encoded.bytes > bound_) {
    result.status = {Code::device_failed, "the GPU did not say how long a frame is"};
  } else {
    result.encoded = {static_cast<std::size_t>(told.encoded.bytes), told.encoded.nonfinite};
  }
  return true;
}

}  // namespace mq
