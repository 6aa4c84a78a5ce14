#include "mpi_quant/device/batch.hpp"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <utility>

namespace mq {

void LaunchBatch::prepare(const DeviceApi& api, DeviceStream* stream) {
  api_ = &api;
  stream_ = stream;
  segments_ = 0;
  operations_.clear();
  operations_.reserve(kRoom);
  status_ = {};
}

void LaunchBatch::begin_segment() { ++segments_; }

LaunchBatch::Operation& LaunchBatch::add() {
  if (operations_.size() == kRoom) launch_all();
  Operation& operation = operations_.emplace_back();
  operation.segment = segments_;
  operation.is_launched = false;
  return operation;
}

void LaunchBatch::add_launch(void* batch, const kernels::Launch& launch) noexcept {
  Operation& operation = static_cast<LaunchBatch*>(batch)->add();
  operation.launch = launch;
  std::memcpy(operation.args, launch.args, launch.args_bytes);
}

void LaunchBatch::copy(void* to, const void* from, std::size_t bytes) {
  Operation& operation = add();
  operation.launch = {};
  operation.to = to;
  operation.from = from;
  operation.bytes = bytes;
}

Status LaunchBatch::flush() {
  launch_all();
  segments_ = 0;
  Status launched = api_->launch_error(stream_);  // reading it clears it
  if (status_.ok()) status_ = std::move(launched);
  return std::exchange(status_, Status{});
}

void LaunchBatch::launch_all() noexcept {
  for (std::size_t i = 0; i < operations_.size() && status_.ok(); ++i) {
    copy_next();
    if (status_.ok() && !operations_[i].is_launched) launch_like(i);
  }
  operations_.clear();
}

// Makes the copies with which segments go on, so that they do not keep equal launches apart.
void LaunchBatch::copy_next() noexcept {
  std::size_t waiting = segments_ + 1;  // no segment; the operations of a segment lie side by side
  for (Operation& o : operations_) {
    if (o.is_launched || o.segment == waiting || !status_.ok()) continue;
    if (o.launch.kernel != nullptr) {
      waiting = o.segment;
      continue;
    }
    status_ = api_->copy(stream_, o.to, o.from, o.bytes);
    o.is_launched = true;
  }
}

// Launches this operation, and with it the equal ones with which other segments go on.
void LaunchBatch::launch_like(std::size_t first) noexcept {
  alignas(16) std::byte args[kernels::kArgsOfRuns];
  kernels::Launch launch = operations_[first].launch;
  launch.args = args;
  launch.runs = 0;
  const std::uint32_t most = kernels::most_runs(launch.args_bytes);
  std::size_t last = segments_ + 1;  // no segment
  for (std::size_t i = first; i < operations_.size() && launch.runs < most; ++i) {
    Operation& o = operations_[i];
    if (o.is_launched || o.segment == std::exchange(last, o.segment)) continue;
    if (o.launch.kernel != launch.kernel || o.launch.grid != launch.grid || o.launch.block != launch.block ||
        o.launch.shared_bytes != launch.shared_bytes || o.launch.args_bytes != launch.args_bytes)
      continue;
    std::memcpy(args + launch.runs++ * launch.args_bytes, o.args, launch.args_bytes);
    o.is_launched = true;
  }
  const kernels::Launcher launcher = api_->launcher(stream_);
  launcher.launch(launcher.context, launch);
}

}  // namespace mq
