#include "mpi_quant/device/placement.hpp"

#include <new>
#include <string>
#include <utility>

#include "mpi_quant/base/env.hpp"

namespace mq {
namespace {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// The proposal of n elements in host memory. Half types are converted to float first.
double propose_on_host(const Job& job, const std::byte* x) {
  if (job.convert == nullptr) return job.codec->propose(x, job.count, job.element, job.params);
  Buffer widened;
  if (!widened.reserve(job.count * sizeof(float))) throw std::bad_alloc();
  job.convert->widen(x, widened.data(), job.count);
  return job.codec->propose(widened.data(), job.count, kernels::Element::f32, job.params);
}

Result<bool> device_wire(bool (*mpi_takes_device_memory)() noexcept) noexcept {
  const DeviceWire wanted = env().ok() ? env()->cuda_wire : DeviceWire::host;
  if (wanted == DeviceWire::host) return false;
  if (mpi_takes_device_memory()) return true;
  if (wanted == DeviceWire::automatic) return false;
  return status_of(Code::bad_policy, [] {
    return std::string(
        "MPIQ_CUDA_WIRE=device: this MPI does not say that it accepts GPU memory (auto: only if it does)");
  });
}

}  // namespace

DeviceRows device_rows(bool (*mpi_takes_device_memory)() noexcept) noexcept {
  const DeviceApi* const api = device_api();
  if (api == nullptr) return {};
  return {api,
          kernels::device_ops,
          kernels::device_convert,
          kernels::device_propose,
          device_wire(mpi_takes_device_memory),
          env().ok() && env()->cuda_time};
}

Status DevicePlacement::locate(Job& job, const DeviceRows& rows) {
  mode_ = Mode::host;
  job.backend = &host_;
  rows_ = rows;
  backend_.job = {};
  if (rows.api == nullptr) return {};
  MQ_TRY(rows.api->where(job.output, out_));
  in_ = out_;
  if (job.input != job.output) MQ_TRY(rows.api->where(job.input, in_));
  if (in_.memory == Memory::host && out_.memory == Memory::host) return {};
  Device* const device = out_.memory == Memory::device ? out_.device : in_.device;
  backend_.job.api = rows.api;
  backend_.job.device = device;
  backend_.job.ops = rows.ops(*job.codec, kernels::compute_element(job.element));
  if (job.facts->raw) backend_.job.raw_ops = rows.ops(raw_codec(), kernels::compute_element(job.element));
  backend_.job.convert = rows.convert(job.element);
  const bool can_convert = job.convert == nullptr || backend_.job.convert != nullptr;
  const bool has_rows = backend_.job.ops != nullptr && (!job.facts->raw || backend_.job.raw_ops != nullptr);
  const char* const no_kernels = rows.api->no_kernels(device);
  if (no_kernels != nullptr) note_no_kernels(no_kernels);
  const bool runs = has_rows && can_convert && no_kernels == nullptr;
  stage(job);
  if (!runs) return {};
  if (!rows.device_wire.ok()) return rows.device_wire.status();
  backend_.job.device_wire = *rows.device_wire;
  backend_.job.is_timed = rows.is_timed;
  mode_ = Mode::device;
  const kernels::DeviceShape* const shape = rows.api->shape(device);
  if (shape != nullptr) backend_.job.shape = *shape;
  job.backend = &backend_;
  copies_in_ = in_.device != device;  // even if it is on another device
  copies_out_ = out_.memory == Memory::host;
  return {};
}

void DevicePlacement::stage(Job& job) {
  mode_ = Mode::staged;
  job.backend = &host_;
  copies_in_ = in_.memory == Memory::device;
  copies_out_ = out_.memory == Memory::device;
}

bool DevicePlacement::is_captured(const DeviceOrder& order) const {
  return mode_ != Mode::host && rows_.api->capturing(backend_.job.device, order.stream);
}

Status DevicePlacement::prepare(Job& job, const Setting& setting) {
  setting_ = setting;
  delivering_ = false;
  if (mode_ == Mode::host) return {};
  input_ = job.input;
  output_ = job.output;
  vector_bytes_ = job.count * kernels::element_bytes(job.element);
  if (work_ != nullptr && work_->device() != backend_.job.device) pool_.give(std::move(work_));
  const bool was_used = work_ != nullptr || pool_.has(backend_.job.device);
  if (work_ == nullptr) work_ = pool_.take(*rows_.api, backend_.job.device);
  MQ_TRY(work_->take_error());
  begun_ = true;
  Status status = prepare_work(job);
  if (!status.ok() && status.code() != Code::no_memory && was_used) {
    // The program may have reset the device since the last call.
    pool_.discard(std::move(work_));
    work_ = pool_.take(*rows_.api, backend_.job.device);
    status = prepare_work(job);
  }
  if (!status.ok() && mode_ == Mode::device) {
    (void)work_->take_error();
    stage(job);
    status = prepare_work(job);
  }
  if (!status.ok()) settle();
  return status;
}

const kernels::DeviceProposeOps* DevicePlacement::propose_row(const Job& job) const {
  return setting_.measures && job.convert == nullptr ? rows_.propose(*job.codec, job.element) : nullptr;
}

// The memory that a job needs. Pinned: frames, then a proposal; for a staged job the vectors. On the device:
// vectors, then scratch memory.
DeviceResources::Need DevicePlacement::need(const Job& job) const {
  DeviceResources::Need need;
  const std::size_t vectors =
      (copies_in_ ? aligned(vector_bytes_) : 0) + (copies_out_ ? aligned(vector_bytes_) : 0);
  if (mode_ == Mode::staged) {
    need.pinned_bytes = vectors;
    return need;
  }
  const Layout layout = layout_of(job);
  need.pipelines = pipelines_of(job, layout);
  need.events = static_cast<std::size_t>(job.plan->slots) * (backend_.job.is_timed ? 2 : 1);
  need.pipeline_bytes = DeviceSteps::device_bytes(job, backend_.job, layout);
  need.device_bytes = vectors;
  need.pinned_bytes = aligned(setting_.frames_bytes) + sizeof(double);
  if (const kernels::DeviceProposeOps* const row = propose_row(job))
    need.device_bytes += aligned(row->scratch_bytes(job.count, job.params));
  return need;
}

// Reserves the memory for copies of the vectors. A staged job can also use memory that is not pinned.
Status DevicePlacement::reserve(const Job& job, std::byte*& vectors) {
  DeviceResources::Need needed = need(job);
  Status status = work_->reserve(needed);
  if (mode_ == Mode::device) {
    vectors = work_->device_memory();
    return status;
  }
  vectors = work_->pinned();
  if (status.ok()) return status;
  if (!pageable_.reserve(std::exchange(needed.pinned_bytes, 0))) return status;
  vectors = pageable_.data();
  return work_->reserve(needed);
}

Status DevicePlacement::prepare_work(Job& job) {
  std::byte* at = nullptr;
  MQ_TRY(reserve(job, at));
  job.input = input_;
  job.output = output_;
  if (copies_in_) {
    job.input = at;
    at += aligned(vector_bytes_);
  }
  if (copies_out_) job.output = at;
  // In place: one copy serves as input and output.
  if (copies_in_ && copies_out_ && input_ == output_) job.input = job.output;
  delivered_ = job.output;
  backend_.job.pipelines = work_->pipelines();
  backend_.job.may_outlast = setting_.outlasts && !copies_out_ && !backend_.job.device_wire &&
                             (job.convert == nullptr || job.residual == nullptr);
  return setting_.rehearsal ? Status{} : begin(job);
}

Status DevicePlacement::begin(const Job& job) {
  MQ_TRY(work_->follow(setting_.order));
  const bool is_elsewhere = in_.memory == Memory::device && in_.device != backend_.job.device;
  if (is_elsewhere && !setting_.order.has_stream) MQ_TRY(follow_elsewhere());
  if (copies_in_) {
    auto* const copy = const_cast<std::byte*>(job.input);  // points to our own memory
    MQ_TRY(rows_.api->copy(work_->main(), copy, input_, vector_bytes_));
  }
  if (mode_ == Mode::device) return work_->fork();
  // The processor needs the values now. And the output must not be written before the program's work on it is
  // complete.
  return rows_.api->synchronize(work_->main());
}

// The input is on another device than the codec. Waits there, too, for the work that the program has
// launched.
Status DevicePlacement::follow_elsewhere() {
  std::unique_ptr<DeviceResources> there = pool_.take(*rows_.api, in_.device);
  const auto follow = [&]() -> Status {
    MQ_TRY(there->reserve({}));
    MQ_TRY(there->follow(setting_.order));
    MQ_TRY(rows_.api->record(there->main_event(), there->main()));
    return rows_.api->wait_event(work_->main(), there->main_event());
  };
  Status status = follow();
  there->mark_idle();  // nothing of ours was launched there
  pool_.give(std::move(there));
  return status;
}

Status DevicePlacement::propose(const Job& job, double& proposal) {
  if (mode_ != Mode::device) {
    proposal = propose_on_host(job, job.input);
    return {};
  }
  if (const kernels::DeviceProposeOps* const row = propose_row(job))
    return propose_on_device(job, *row, proposal);
  Buffer copy;
  if (!copy.reserve(vector_bytes_)) throw std::bad_alloc();
  MQ_TRY(rows_.api->copy(work_->main(), copy.data(), job.input, vector_bytes_));
  MQ_TRY(rows_.api->synchronize(work_->main()));
  proposal = propose_on_host(job, copy.data());
  return {};
}

Status DevicePlacement::propose_on_device(const Job& job, const kernels::DeviceProposeOps& row,
                                          double& proposal) {
  auto* const reported = reinterpret_cast<double*>(work_->pinned() + aligned(setting_.frames_bytes));
  const std::size_t vectors =
      (copies_in_ ? aligned(vector_bytes_) : 0) + (copies_out_ ? aligned(vector_bytes_) : 0);
  *reported = -1;
  row.propose(job.input, job.count, job.params, reported, work_->device_memory() + vectors,
              backend_.job.shape, rows_.api->launcher(work_->main()));
  Status launched = rows_.api->launch_error(work_->main());
  Status ended = rows_.api->synchronize(work_->main());
  MQ_TRY(std::move(launched));
  MQ_TRY(std::move(ended));
  if (!(*reported >= 0)) return {Code::device_failed, "the GPU did not measure the vector"};
  proposal = *reported;
  return {};
}

Status DevicePlacement::deliver(const Status& failure, bool& over) {
  over = true;
  if (mode_ == Mode::host) return failure;
  const DeviceApi& api = *rows_.api;
  if (failure.ok() && backend_.job.may_outlast)
    backend_.late([&](std::span<const DeviceResult> results) { work_->check_later(results); });
  if (!failure.ok()) {
    settle();
    return failure;
  }
  if (delivering_) {
    Status status = api.query(work_->main_event(), over);
    if (!status.ok()) return fail(std::move(status), over);
    if (over) mark_idle();
    return {};
  }
  if (copies_out_) {
    Status status = api.copy(work_->main(), output_, delivered_, vector_bytes_);
    if (status.ok()) status = api.record(work_->main_event(), work_->main());
    if (!status.ok()) return fail(std::move(status), over);
    over = false;
    delivering_ = true;
    return {};
  }
  if (backend_.job.may_outlast)
    for (const DevicePipeline& pipeline : work_->pipelines())
      if (Status status = api.lead_stream(pipeline.stream, setting_.order.stream); !status.ok())
        return fail(std::move(status), over);
  mark_idle();
  return {};
}

// The call fails. Waits first, because none of its work may still be running after that.
Status DevicePlacement::fail(Status status, bool& over) {
  over = true;
  settle();
  return status;
}

}  // namespace mq
