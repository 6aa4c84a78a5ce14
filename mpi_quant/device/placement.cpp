#include "mpi_quant/device/placement.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "mpi_quant/base/env.hpp"

namespace mq {
namespace {

// Measures n elements in host memory. Half types are converted to float first.
kernels::Facts measure_on_host(const Reduction& reduction, const std::byte* x) {
  const std::size_t n = input_of(reduction).n;
  if (reduction.convert == nullptr)
    return reduction.codec->measure(x, n, reduction.element, reduction.params);
  Buffer widened;
  if (!widened.reserve(n * sizeof(float))) throw std::bad_alloc();
  reduction.convert->widen(x, widened.data(), n);
  return reduction.codec->measure(widened.data(), n, kernels::Element::f32, reduction.params);
}

// Segments in flight on a device: enough to fill launches, fewer if each has many chunks or frames, whose
// pinned memory they take. As many as on the host, or a multiple that divides tag_segments.
int device_pipelines(const Reduction& reduction) {
  static_assert(kMostCudaSegments == 2 * LaunchBatch::kMostSegments);
  constexpr int kChunks = 64;
  const int most = env().ok() ? env()->cuda_segments : kMostCudaSegments;
  const int wanted =
      std::clamp(kChunks / std::max(reduction.plan->chunks, reduction.plan->slots / 2), 1, most);
  int pipelines = reduction.pipelines;
  while (2 * pipelines <= wanted && reduction.tag_segments % (2 * pipelines) == 0) pipelines *= 2;
  return pipelines;
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
          kernels::device_measure,
          device_wire(mpi_takes_device_memory),
          env().ok() && env()->cuda_time};
}

Status DevicePlacement::locate(Reduction& reduction, const DeviceRows& rows) {
  mode_ = Mode::host;
  reduction.backend = &host_;
  host_pipelines_ = reduction.pipelines;
  rows_ = rows;
  moves_ = reduction.parts.moves;
  backend_.device_reduction = {};
  if (rows.api == nullptr) return {};
  MQ_TRY(rows.api->where(reduction.output, out_));
  in_ = out_;
  if (reduction.input != reduction.output) MQ_TRY(rows.api->where(reduction.input, in_));
  if (in_.memory == Memory::host && out_.memory == Memory::host) return {};
  Device* const device = out_.memory == Memory::device ? out_.device : in_.device;
  backend_.device_reduction.api = rows.api;
  backend_.device_reduction.device = device;
  backend_.device_reduction.ops =
      rows.ops(*reduction.codec, kernels::compute_element(reduction.element), reduction.params);
  if (may_be_raw(reduction))
    backend_.device_reduction.raw_ops =
        rows.ops(raw_codec(), kernels::compute_element(reduction.element), {});
  backend_.device_reduction.convert = rows.convert(reduction.element);
  const bool can_convert = reduction.convert == nullptr || backend_.device_reduction.convert != nullptr;
  const bool has_rows = backend_.device_reduction.ops != nullptr &&
                        (!may_be_raw(reduction) || backend_.device_reduction.raw_ops != nullptr);
  const char* const no_kernels = rows.api->no_kernels(device);
  if (no_kernels != nullptr) note_no_kernels(no_kernels);
  const bool runs = has_rows && can_convert && no_kernels == nullptr;
  stage(reduction);
  if (!runs) return {};
  if (!rows.device_wire.ok()) return rows.device_wire.status();
  backend_.device_reduction.device_wire =
      *rows.device_wire && reduction.memory.terms.messages == 1;  // rule_steps.hpp says why
  backend_.device_reduction.is_timed = rows.is_timed;
  mode_ = Mode::device;
  const kernels::DeviceShape* const shape = rows.api->shape(device);
  if (shape != nullptr) backend_.device_reduction.shape = *shape;
  reduction.backend = &backend_;
  reduction.pipelines = device_pipelines(reduction);
  copies_in_ = in_.device != device;  // even if it is on another device
  copies_out_ = out_.memory == Memory::host || moves_;
  return {};
}

void DevicePlacement::stage(Reduction& reduction) {
  mode_ = Mode::staged;
  reduction.backend = &host_;
  reduction.pipelines = host_pipelines_;
  copies_in_ = in_.memory == Memory::device;
  copies_out_ = out_.memory == Memory::device;
}

// The memory for copies of the caller's vectors.
std::size_t DevicePlacement::copies_bytes() const {
  return (copies_in_ ? round_up(input_bytes_, kDeviceLine) : 0) +
         (copies_out_ ? round_up(output_bytes_, kDeviceLine) : 0);
}

bool DevicePlacement::is_captured(const DeviceOrder& order) const {
  return mode_ != Mode::host && rows_.api->capturing(backend_.device_reduction.device, order.stream);
}

Status DevicePlacement::prepare(Reduction& reduction, const Setting& setting) {
  setting_ = setting;
  delivering_ = false;
  input_ = reduction.input;
  output_ = reduction.output;
  width_ = kernels::element_bytes(reduction.element);
  input_bytes_ = input_of(reduction).n * width_;
  output_bytes_ = output_of(reduction).n * width_;
  ends_ = reduction.parts.ends;
  places_ = reduction.parts.places;
  if (mode_ == Mode::host) {
    // The result is written where this rank's part is, and moved at the end.
    delivered_ = output_;
    if (!moves_) return {};
    delivered_ += reduction.parts.output.begin * width_;
    reduction.parts.output.begin = 0;
    return {};
  }
  if (work_ != nullptr && work_->device() != backend_.device_reduction.device) pool_.give(std::move(work_));
  const bool was_used = work_ != nullptr || pool_.has(backend_.device_reduction.device);
  if (work_ == nullptr) work_ = pool_.take(*rows_.api, backend_.device_reduction.device);
  MQ_TRY(work_->take_error());
  begun_ = true;
  Status status = prepare_work(reduction);
  if (!status.ok() && status.code() != Code::no_memory && was_used) {
    // The program may have reset the device since the last call.
    pool_.discard(std::move(work_));
    work_ = pool_.take(*rows_.api, backend_.device_reduction.device);
    status = prepare_work(reduction);
  }
  if (!status.ok() && mode_ == Mode::device) {
    (void)work_->take_error();
    stage(reduction);
    status = prepare_work(reduction);
  }
  if (!status.ok()) settle();
  return status;
}

const kernels::DeviceMeasureOps* DevicePlacement::measure_row(const Reduction& reduction) const {
  return setting_.measures && reduction.convert == nullptr
             ? rows_.measure(*reduction.codec, reduction.element)
             : nullptr;
}

// The memory that a reduction needs. Pinned: see pinned_bytes(); for a staged reduction the vectors. On the
// device: vectors, then scratch memory.
DeviceResources::Need DevicePlacement::need(const Reduction& reduction) const {
  DeviceResources::Need need;
  if (mode_ == Mode::staged) {
    need.pinned_bytes = copies_bytes();
    return need;
  }
  const Layout layout = layout_of(reduction);
  need.pipelines = pipelines_of(reduction, layout);
  need.events =
      static_cast<std::size_t>(reduction.plan->slots) * (backend_.device_reduction.is_timed ? 2 : 1);
  need.is_timed = backend_.device_reduction.is_timed;
  need.pipeline_bytes = DeviceSteps::device_bytes(reduction, backend_.device_reduction, layout);
  need.device_bytes = copies_bytes();
  need.pinned_bytes = pinned_bytes(reduction);
  if (const kernels::DeviceMeasureOps* const row = measure_row(reduction))
    need.device_bytes += round_up(row->scratch_bytes(input_of(reduction).n, reduction.params), kDeviceLine);
  return need;
}

// Reserves the memory for copies of the vectors. A staged reduction can also use memory that is not pinned.
Status DevicePlacement::reserve(const Reduction& reduction, std::byte*& vectors) {
  DeviceResources::Need needed = need(reduction);
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

Status DevicePlacement::prepare_work(Reduction& reduction) {
  std::byte* at = nullptr;
  MQ_TRY(reserve(reduction, at));
  reduction.input = input_;
  reduction.output = output_;
  if (copies_in_) {
    reduction.input = at;
    at += round_up(input_bytes_, kDeviceLine);
  }
  if (copies_out_) reduction.output = at;
  // In place: one copy serves as input and output.
  if (copies_in_ && copies_out_ && input_ == output_ && !moves_) reduction.input = reduction.output;
  delivered_ = reduction.output;
  backend_.device_reduction.pipelines = work_->pipelines();
  backend_.device_reduction.may_outlast =
      setting_.outlasts && !copies_out_ && !backend_.device_reduction.device_wire &&
      !reduction.memory.keeps_estimates() && (reduction.convert == nullptr || reduction.residual == nullptr);
  return setting_.rehearsal ? Status{} : begin(reduction);
}

Status DevicePlacement::begin(const Reduction& reduction) {
  MQ_TRY(work_->follow(setting_.order));
  const bool is_elsewhere = in_.memory == Memory::device && in_.device != backend_.device_reduction.device;
  if (is_elsewhere && !setting_.order.has_stream) MQ_TRY(follow_elsewhere());
  if (copies_in_ && input_bytes_ > 0) {
    auto* const copy = const_cast<std::byte*>(reduction.input);  // points to our own memory
    MQ_TRY(rows_.api->copy(work_->main(), copy, input_, input_bytes_));
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

Status DevicePlacement::measure(const Reduction& reduction, kernels::Facts& measured) {
  if (mode_ != Mode::device) {
    measured = measure_on_host(reduction, reduction.input);
    return {};
  }
  if (const kernels::DeviceMeasureOps* const row = measure_row(reduction))
    return measure_on_device(reduction, *row, measured);
  Buffer copy;
  if (!copy.reserve(input_bytes_)) throw std::bad_alloc();
  MQ_TRY(rows_.api->copy(work_->main(), copy.data(), reduction.input, input_bytes_));
  MQ_TRY(rows_.api->synchronize(work_->main()));
  measured = measure_on_host(reduction, copy.data());
  return {};
}

Status DevicePlacement::measure_on_device(const Reduction& reduction, const kernels::DeviceMeasureOps& row,
                                          kernels::Facts& measured) {
  auto* const reported = new (work_->pinned() + measured_at()) kernels::Facts{-1};
  row.measure(reduction.input, input_of(reduction).n, reduction.params, reported,
              work_->device_memory() + copies_bytes(), backend_.device_reduction.shape,
              rows_.api->launcher(work_->main()));
  Status launched = rows_.api->launch_error(work_->main());
  Status ended = rows_.api->synchronize(work_->main());
  MQ_TRY(std::move(launched));
  MQ_TRY(std::move(ended));
  if (!((*reported)[0] >= 0)) return {Code::device_failed, "the GPU did not measure the vector"};
  measured = *reported;
  return {};
}

Status DevicePlacement::deliver(const Status& failure, bool& over) {
  over = true;
  if (mode_ == Mode::host) {
    if (failure.ok() && moves_ && output_bytes_ > 0) std::memmove(output_, delivered_, output_bytes_);
    return failure;
  }
  const DeviceApi& api = *rows_.api;
  if (failure.ok() && backend_.device_reduction.may_outlast)
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
    Status status = copy_out();
    if (status.ok()) status = api.record(work_->main_event(), work_->main());
    if (!status.ok()) return fail(std::move(status), over);
    over = false;
    delivering_ = true;
    return {};
  }
  if (backend_.device_reduction.may_outlast)
    for (DeviceStream* const stream : work_->streams())
      if (Status status = api.lead_stream(stream, setting_.order.stream); !status.ok())
        return fail(std::move(status), over);
  mark_idle();
  return {};
}

// Between the parts of an allgather there may be elements that belong to the program.
Status DevicePlacement::copy_out() {
  const DeviceApi& api = *rows_.api;
  if (places_.empty())
    return output_bytes_ > 0 ? api.copy(work_->main(), output_, delivered_, output_bytes_) : Status{};
  for (std::size_t r = 0; r < places_.size(); ++r) {
    const std::size_t n = ends_[r] - (r == 0 ? 0 : ends_[r - 1]), at = places_[r] * width_;
    if (n > 0) MQ_TRY(api.copy(work_->main(), output_ + at, delivered_ + at, n * width_));
  }
  return {};
}

// The call fails. Waits first, because none of its work may still be running after that.
Status DevicePlacement::fail(Status status, bool& over) {
  over = true;
  settle();
  return status;
}

}  // namespace mq
