// Places one call: finds where its vectors are, and decides where the codec runs.
//
//   host    Both vectors are in host memory. Nothing is done here.
//   device  The codec runs on the device of one of the vectors. A vector that is elsewhere is copied there.
//   staged  A vector is on a device that cannot run the codec or lacks the memory. The vectors are copied to
//           host memory, and the codec runs on the processor.
//
// Each rank decides this alone, because the messages are the same. Errors become the call's local error, or
// the failure of its run.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/device.hpp"
#include "mpi_quant/device/resources.hpp"
#include "mpi_quant/engine/host_steps.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq {

// What is known about devices: the table of functions (null if there are none) and the rows of codecs.
struct DeviceRows {
  const DeviceApi* api = nullptr;
  const kernels::DeviceOps* (*ops)(const kernels::Codec&, kernels::Element,
                                   const kernels::Params&) noexcept = nullptr;
  const kernels::DeviceConvertOps* (*convert)(kernels::Element) noexcept = nullptr;
  const kernels::DeviceMeasureOps* (*measure)(const kernels::Codec&, kernels::Element) noexcept = nullptr;
  Result<bool> device_wire = false;  // frames are in device memory (MPIQ_CUDA_WIRE)
  bool is_timed = false;             // the device's clock times the steps (MPIQ_CUDA_TIME)
};
// The rows of this process. mpi_takes_device_memory says whether MPI accepts pointers to GPU memory; it is
// called only if the answer matters.
DeviceRows device_rows(bool (*mpi_takes_device_memory)() noexcept) noexcept;

class DevicePlacement {
 public:
  explicit DevicePlacement(DevicePool& pool) : pool_(pool) {}
  ~DevicePlacement() { give_back(); }
  // Gives streams and memory to other calls. Launched work continues.
  void give_back() noexcept { pool_.give(std::move(work_)); }
  DevicePlacement(const DevicePlacement&) = delete;
  DevicePlacement& operator=(const DevicePlacement&) = delete;

  // Call it before a run: finds where reduction.input and reduction.output are, and decides how the reduction
  // runs. Sets reduction.backend. If that is a device, prepare() later provides its pipelines, of which there
  // may be more than reduction.pipelines says before.
  Status locate(Reduction& reduction, const DeviceRows& rows);
  // True if a vector is on a device and the calling thread is capturing a stream. Then nothing may be
  // launched.
  bool is_captured(const DeviceOrder& order) const;
  // Turns a reduction on a device into a staged reduction, which runs on the processor. Its residual must be
  // in host memory.
  void stage(Reduction& reduction);
  // Whether the reduction runs on a device.
  bool is_on_device() const { return mode_ == Mode::device; }
  // The device where the residual must be; null: host memory.
  Device* residual_device() const {
    return mode_ == Mode::device ? backend_.device_reduction.device : nullptr;
  }
  const DeviceApi* api() const { return rows_.api; }

  struct Setting {
    DeviceOrder order;
    bool outlasts = false;         // the last decodes may still run after the call
    bool rehearsal = false;        // values are neither read nor written
    bool measures = false;         // measure() may be called
    std::size_t frames_bytes = 0;  // Execution::scratch_bytes of a reduction on a device
  };
  // Gets everything ready and starts copies. Afterwards the reduction's vectors are those that its run uses,
  // and for a reduction on a device frames() is valid. If the device lacks something, the reduction becomes
  // staged (see stage()). An error may come from an earlier stream-ordered call. May throw std::bad_alloc.
  Status prepare(Reduction& reduction, const Setting& setting);
  std::byte* frames() const { return work_->pinned(); }
  // Measures the vector (kernels::Codec::measure). May throw std::bad_alloc.
  Status measure(const Reduction& reduction, kernels::Measured& measured);
  // As the functions of engine/memory_steps.hpp, wherever the vectors and the arrays of the rule are. Call
  // the first two after prepare(), the others once the ranks have agreed.
  Status memory_factor(const Reduction& reduction, double& factor);
  Status has_moved(const Reduction& reduction, bool& moved);
  Status zero(std::byte* array, std::size_t bytes);  // what the run reads there; array: of the rule
  Status deliver_estimates(const Reduction& reduction);
  // Call it after the run until `over` is true: brings the result to the caller's output. Returns the status
  // of the call: `failure`, unless that is ok.
  Status deliver(const Status& failure, bool& over);
  // Waits for everything that this call has launched.
  void settle() noexcept {
    if (std::exchange(begun_, false) && work_ != nullptr) (void)work_->take_error();
  }
  std::size_t bytes() const { return pageable_.bytes() + (work_ == nullptr ? 0 : work_->bytes()); }

 private:
  enum class Mode : char { host, device, staged };
  Status prepare_work(Reduction& reduction);
  Status reserve(const Reduction& reduction, std::byte*& vectors);
  std::size_t copies_bytes() const;
  Status begin(const Reduction& reduction);
  Status follow_elsewhere();
  Status copy_out();
  Status fail(Status status, bool& over);
  void mark_idle() {
    work_->mark_idle();
    begun_ = false;
  }
  const kernels::DeviceMeasureOps* measure_row(const Reduction& reduction) const;
  DeviceResources::Need need(const Reduction& reduction) const;
  // Pinned memory: frames, what the codec measures, and sums for memory rules.
  std::size_t measured_at() const { return round_up(setting_.frames_bytes, kDeviceLine); }
  std::size_t sums_at() const { return measured_at() + kDeviceLine; }
  std::size_t pinned_bytes(const Reduction& reduction) const;
  kernels::DeviceMemory rule_of(const Reduction& reduction) const;
  template <class F>
  Status run_now(const F& launch);
  Status measure_on_device(const Reduction& reduction, const kernels::DeviceMeasureOps& row,
                           kernels::Measured& measured);

  DevicePool& pool_;
  DeviceRows rows_;
  Mode mode_ = Mode::host;
  Where in_, out_;  // where the caller's vectors are
  DeviceBackend backend_;
  HostBackend host_;
  Setting setting_;
  int host_pipelines_ = 0;  // reduction.pipelines, if it runs on the processor
  std::unique_ptr<DeviceResources> work_;
  bool begun_ = false;                                  // work_ is in use by this call
  Buffer pageable_;                                     // vectors of a staged reduction without pinned memory
  const std::byte* input_ = nullptr;                    // the caller's vectors
  std::byte *output_ = nullptr, *delivered_ = nullptr;  // delivered_: copied to output_
  bool copies_in_ = false, copies_out_ = false, delivering_ = false;
  bool moves_ = false;                          // Parts::moves
  std::span<const std::size_t> ends_, places_;  // of Parts
  std::size_t width_ = 4;                       // bytes of an element
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
};

}  // namespace mq
