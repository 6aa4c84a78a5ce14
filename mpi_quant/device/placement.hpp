// The device's side of one call: where its vectors are, and what follows from it.
//
//   host    both vectors are in host memory: nothing.
//   device  the codec runs where one of the vectors is; the other one, if it is not there, has a copy there.
//   staged  a vector is on a device that cannot run the codec, or has no memory for it: host copies, and the
//           codec on the processor.
//
// All of it is this rank's own affair: messages are the same. Errors are to become the call's local error, or the
// failure of its run.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/device.hpp"
#include "mpi_quant/device/resources.hpp"
#include "mpi_quant/engine/host_steps.hpp"
#include "mpi_quant/engine/job.hpp"

namespace mq {

// What knows of devices: the table of functions, null if there are none, and the rows of codecs.
struct DeviceRows {
  const DeviceApi* api = nullptr;
  const kernels::DeviceOps* (*ops)(const kernels::Codec&, kernels::Element) noexcept = nullptr;
  const kernels::DeviceConvertOps* (*convert)(kernels::Element) noexcept = nullptr;
  const kernels::DeviceProposeOps* (*propose)(const kernels::Codec&, kernels::Element) noexcept = nullptr;
  Result<bool> device_wire = false;  // whether frames are to be in the device's memory (MPIQ_CUDA_WIRE)
  bool is_timed = false;             // whether its clock is to be asked (MPIQ_CUDA_TIME)
};
// Of this process. mpi_takes_device_memory: whether MPI takes pointers to memory of GPUs; asked only if that
// decides anything.
DeviceRows device_rows(bool (*mpi_takes_device_memory)() noexcept) noexcept;

class DevicePlacement {
 public:
  explicit DevicePlacement(DevicePool& pool) : pool_(pool) {}
  ~DevicePlacement() { pool_.give(std::move(work_)); }  // what is under way goes on
  DevicePlacement(const DevicePlacement&) = delete;
  DevicePlacement& operator=(const DevicePlacement&) = delete;

  // Before a call: where job.input and job.output are, and how the job is to run. Sets job.backend, whose
  // lanes prepare() provides, if that is a device.
  Status locate(Job& job, const DeviceRows& rows);
  // True if a vector is on a device and the calling thread is capturing a stream: nothing may be launched.
  bool is_captured(const DeviceOrder& order) const;
  // A job on a device becomes a staged one, which runs on the processor: the residual has to be in host
  // memory.
  void stage(Job& job);
  // Whether the job runs on a device.
  bool is_on_device() const { return mode_ == Mode::device; }
  // Where the residual of the job has to be; null: in host memory.
  Device* residual_device() const { return mode_ == Mode::device ? backend_.job.device : nullptr; }
  const DeviceApi* api() const { return rows_.api; }

  struct Setting {
    DeviceOrder order;
    bool outlasts = false;         // the last decodes may still run when the call is over
    bool rehearsal = false;        // values are neither read nor written
    bool measures = false;         // propose() may be called
    std::size_t frames_bytes = 0;  // Execution::scratch_bytes, of a job on a device
  };
  // Gets everything ready, and copies begin: job's vectors become those that its run is to use. frames() is
  // then there for a job on a device. A device that lacks something gets a staged job, see stage(). An error
  // may be that of a stream-ordered call before this one. May throw std::bad_alloc.
  Status prepare(Job& job, const Setting& setting);
  std::byte* frames() const { return work_->pinned(); }
  // What the vector proposes for the codec's measured parameter. May throw std::bad_alloc.
  Status propose(const Job& job, double& proposal);
  // After the run, until `over`: the result goes where the caller wants it. Gives the status of the call,
  // which is `failure` unless that is ok.
  Status deliver(const Status& failure, bool& over);
  // Waits for everything that this call has launched.
  void settle() noexcept {
    if (std::exchange(begun_, false) && work_ != nullptr) (void)work_->verdict();
  }
  std::size_t bytes() const { return pageable_.bytes() + (work_ == nullptr ? 0 : work_->bytes()); }

 private:
  enum class Mode : char { host, device, staged };
  Status prepare_work(Job& job);
  Status reserve(const Job& job, std::byte*& vectors);
  Status begin(const Job& job);
  Status follow_elsewhere();
  Status given_up(Status status, bool& over);
  void rest() {
    work_->rest();
    begun_ = false;
  }
  const kernels::DeviceProposeOps* propose_row(const Job& job) const;
  DeviceResources::Need need(const Job& job) const;
  Status propose_on_device(const Job& job, const kernels::DeviceProposeOps& row, double& proposal);

  DevicePool& pool_;
  DeviceRows rows_;
  Mode mode_ = Mode::host;
  Where in_, out_;  // the caller's vectors
  DeviceBackend backend_;
  HostBackend host_;
  Setting setting_;
  std::unique_ptr<DeviceResources> work_;
  bool begun_ = false;                                  // what work_ holds now is this call's
  Buffer pageable_;                                     // vectors of a staged job that have no pinned memory
  const std::byte* input_ = nullptr;                    // the caller's vectors
  std::byte *output_ = nullptr, *delivered_ = nullptr;  // delivered_: what is copied to output_
  bool copies_in_ = false, copies_out_ = false, delivering_ = false;
  std::size_t vector_bytes_ = 0;
};

}  // namespace mq
