#include "mpi_quant/device_chunks.hpp"

#include <algorithm>
#include <limits>

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

}  // namespace

std::size_t DeviceChunks::device_bytes(const Job& job, const Layout& layout) {
  return aligned(ChunkPlaces::memory_bytes(job, layout)) + scratch_bytes(job, layout) +
         aligned(slot_bytes_of(job, layout));
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
}

bool DeviceChunks::encode(const Step& step, std::byte* wire, StepResult& result) {
  const ChunkPlaces::Encode e = places_.encode(step, wire);
  if (e.args.n == 0) {  // nothing for a device to do
    result.encoded = ops_of(*job_, step).encode(e.args);
    return false;
  }
  const DeviceJob& device = *job_->device;
  const kernels::Launcher launcher = device.api->launcher(lane_.stream);
  DeviceResult& told = result_of(step);
  told.encoded = {kNothingWritten, 0};
  if (e.half != nullptr) device.convert->widen(e.half, e.widened, e.args.n, device.shape, launcher);
  device_ops_of(*job_, step).encode({e.args, &told.encoded, scratch_, device.shape}, launcher);
  return launched(step, {}, result);
}

bool DeviceChunks::decode(const Step& step, bool final, std::span<const std::byte> wire, StepResult& result) {
  ChunkPlaces::Decode d = places_.decode(step, final, wire);
  if (d.args.n == 0) {
    result.decoded = ops_of(*job_, step).decode(d.args);
    return false;
  }
  const DeviceJob& device = *job_->device;
  const kernels::Launcher launcher = device.api->launcher(lane_.stream);
  Status status;
  if (d.half != nullptr) device.convert->widen(d.half, d.widened, d.args.n, device.shape, launcher);
  if (wire.size() > kShort) {
    status = device.api->copy(lane_.stream, wire_, wire.data(), wire.size());
    d.args.wire = wire_;
  }
  if (status.ok())
    device_ops_of(*job_, step).decode({d.args, &result_of(step).malformed, scratch_, device.shape}, launcher);
  if (status.ok() && d.rounded != nullptr)
    device.convert->narrow(d.args.x, d.rounded, d.residual, d.args.n, device.shape, launcher);
  return launched(step, std::move(status), result);
}

// What comes after the launches of a step, of which `status` is what is known so far.
bool DeviceChunks::launched(const Step& step, Status status, StepResult& result) {
  const DeviceApi& api = *job_->device->api;
  Status launch = api.launch_error(lane_.stream);  // forgets it
  if (status.ok()) status = std::move(launch);
  if (status.ok()) status = api.record(lane_.events[static_cast<std::size_t>(step.slot)], lane_.stream);
  if (status.ok()) return true;
  (void)api.synchronize(lane_.stream);  // what was launched must not outlive the call
  result.status = std::move(status);
  return false;
}

bool DeviceChunks::over(const Step& step, StepResult& result) {
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
