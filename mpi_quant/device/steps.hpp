// The codec steps of a reduction on a device. Steps of neighbouring pipelines are launched together, one
// after the other into their stream. An event says when they are complete. Nothing here waits, except after a
// failed launch.
//
// Frames are in pinned host memory. An encode writes its payload there directly, over the bus. A decode first
// copies a long payload to the device, because decoders read parts of it more than once. A kernel copies, so
// that the payloads of several segments are one launch.
//
// With DeviceReduction::device_wire, frames are on the device instead. Then the processor cannot read their
// headers, so headers are copied in the order of the stream. The header of an encoded chunk is known before
// the encode, except for the length, which the encode writes. A received header is checked after decoding;
// decoders tolerate arbitrary input. A frame that is only a header is sent from pinned memory, so that a
// failed device can still announce its error.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "mpi_quant/base/device.hpp"
#include "mpi_quant/device/batch.hpp"
#include "mpi_quant/device/rule_steps.hpp"
#include "mpi_quant/engine/backend.hpp"
#include "mpi_quant/engine/chunk_places.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq {

// What the device reports about the steps of a slot. In pinned memory.
struct DeviceResult {
  std::array<std::byte, offsetof(FrameHeader, payload_bytes)> head;  // together with encoded.bytes: a header
  kernels::DeviceEncoded encoded;
  std::uint32_t malformed;
  std::array<std::byte, sizeof(FrameHeader)> received;  // header of the decoded frame
  std::array<kernels::DeviceEncoded, 2> messages;       // of an encode with two messages
};
static_assert(offsetof(DeviceResult, head) == 0 &&
              offsetof(DeviceResult, encoded) == offsetof(FrameHeader, payload_bytes) &&
              sizeof(FrameHeader) == offsetof(FrameHeader, payload_bytes) + sizeof(std::uint64_t));

// Neighbouring pipelines have one stream, and their codec steps become one launch. There are two such groups
// or more, so that one computes while messages of the other are under way.
inline std::size_t pipelines_of_stream(std::size_t pipelines) {
  return std::clamp<std::size_t>((pipelines + 1) / 2, 1, LaunchBatch::kMostSegments);
}

// The device resources of one pipeline.
struct DevicePipeline {
  DeviceStream* stream = nullptr;        // of its group
  std::span<DeviceEvent* const> events;  // one for each slot, or two if steps are timed
  std::byte* memory = nullptr;           // on the device: DeviceSteps::device_bytes
};

// A reduction whose codec runs on a device. Input, output and residual are in device memory. Frames are in
// pinned host memory, or in device memory too.
struct DeviceReduction {
  const DeviceApi* api = nullptr;
  Device* device = nullptr;
  const kernels::DeviceOps* ops = nullptr;
  const kernels::DeviceOps* raw_ops = nullptr;         // of raw_codec(), if steps may be raw
  const kernels::DeviceConvertOps* convert = nullptr;  // of half types, else null
  kernels::DeviceShape shape;
  std::span<const DevicePipeline> pipelines;  // at least pipelines_of() of them
  bool device_wire = false;                   // frames are in device memory, and MPI reads them there
  bool is_timed = false;  // the device's clock times the steps; otherwise they are not timed
  // The call may end while its last decodes still run in their streams.
  bool may_outlast = false;
};

class DeviceSteps;

// The pipelines of one stream. Their launches are numbered, and are over in that order.
class DeviceGroup {
 public:
  // most: launches that may be under way at once. May throw std::bad_alloc.
  void prepare(const DeviceReduction& device, DeviceStream* stream, std::size_t most);
  LaunchBatch& batch() { return batch_; }
  // The next launches belong to this pipeline.
  void begin(DeviceSteps& steps);
  // Launches what the pipelines have begun, and tells them. False if that failed.
  bool launch();
  bool is_busy() const { return over_ < launched_; }
  // Asks for the oldest launch that is not over.
  void look();
  bool is_over(std::size_t launch) const { return launch < over_; }
  // The error with which the device answered, for launches from some number on.
  const Status& failure_of(std::size_t launch) const;

 private:
  DeviceEvent*& end_of(std::size_t launch) { return ends_[launch % ends_.size()]; }

  const DeviceReduction* device_ = nullptr;
  DeviceStream* stream_ = nullptr;
  LaunchBatch batch_;
  std::vector<DeviceSteps*> begun_;
  std::vector<DeviceEvent*> ends_;  // of the launches under way
  std::size_t launched_ = 0, over_ = 0, first_failed_ = 0;
  Status failure_;
};

class DeviceSteps final : public Steps {
 public:
  // Memory that a pipeline needs on the device, a multiple of 256, and for the results in pinned memory, a
  // multiple of 64.
  static std::size_t device_bytes(const Reduction& reduction, const DeviceReduction& device,
                                  const Layout& layout);
  static std::size_t pinned_bytes(const Reduction& reduction);
  // reduction.plan has the steps that follow. pipeline.memory has device_bytes() bytes, and results has
  // pinned_bytes() bytes. May throw std::bad_alloc.
  void prepare(const Reduction& reduction, const DeviceReduction& device, const Layout& layout,
               const DevicePipeline& pipeline, DeviceGroup& group, std::byte* results);

  void start_segment(std::size_t segment) override { places_.start_segment(segment); }
  bool encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result) override;
  bool decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
              StepResult& result) override;
  const Step* over(StepResult& result) override;
  bool is_busy() const override { return !launched_.empty(); }
  bool is_encoding() const override;
  // Whether `step` must wait for a launched step. Codec steps of a pipeline are ordered by its stream, but a
  // slot has only one event. And the processor must not send what an encode still writes, or receive where a
  // decode still reads.
  bool holds_up(const Step& step) const override;
  std::byte* frames() const override { return wire_; }  // on the device
  std::byte* header(int slot) const override {
    return reinterpret_cast<std::byte*>(&results_[static_cast<std::size_t>(slot)]);
  }
  const std::byte* received(const Step& step) const override { return result_of(step).received.data(); }

  // Events around the launches of the pipeline's last step. The whole group takes them for its own.
  DeviceEvent* end_of_last() const { return end_of(*launched_.back().step); }
  DeviceEvent* beginning_of_last() const { return beginning_of(*launched_.back().step); }
  // The last step was launched between these events together with steps of other pipelines, `steps` in all,
  // with this number in its group; or it could not be launched, and nothing of the stream runs any more.
  void was_launched(const Status& status, DeviceEvent* beginning, DeviceEvent* end, std::size_t number,
                    std::size_t steps);
  // Also written by decodes that nobody waits for.
  std::span<const DeviceResult> results() const { return results_; }

 private:
  struct Launched {
    const Step* step = nullptr;
    DeviceEvent *beginning = nullptr, *end = nullptr;
    std::size_t number = 0;  // of the launch in the group
    std::size_t steps = 1;   // between the events
    Status status{};
  };
  void launch(const Step& step, const ChunkPlaces::Encode& e, const FrameHeader& header);
  void launch(const Step& step, ChunkPlaces::Decode d, bool final, bool fetches_header);
  bool is_over(const Launched& launched, StepResult& result);
  DeviceResult& result_of(const Step& step) const { return results_[static_cast<std::size_t>(step.slot)]; }

  DeviceEvent* end_of(const Step& step) const {
    return pipeline_.events[static_cast<std::size_t>(step.slot)];
  }
  DeviceEvent* beginning_of(const Step& step) const {
    return pipeline_.events[results_.size() + static_cast<std::size_t>(step.slot)];
  }

  const Reduction* reduction_ = nullptr;
  const DeviceReduction* device_ = nullptr;
  DevicePipeline pipeline_;
  ChunkPlaces places_;
  RuleSteps rules_;
  std::span<DeviceResult> results_;  // by slot
  std::byte* wire_ = nullptr;        // frames(), or a payload to be decoded
  std::size_t bound_ = 0;
  DeviceGroup* group_ = nullptr;
  std::vector<Launched> launched_;
};

class DeviceBackend final : public Backend {
 public:
  DeviceReduction device_reduction;  // of the next call

  std::size_t pipeline_bytes(const Reduction& reduction, const Layout&) const override {
    return DeviceSteps::pinned_bytes(reduction);
  }
  void prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines, std::byte* memory,
               std::size_t stride) override;
  Steps& pipeline(std::size_t i) override { return pipelines_[i]; }
  bool is_asynchronous() const override { return true; }
  std::size_t together(std::size_t pipelines) const override { return pipelines_of_stream(pipelines); }
  void look() override;
  bool launch() override;
  bool has_frames() const override { return device_reduction.device_wire; }
  bool may_outlast() const override { return device_reduction.may_outlast; }
  // Calls f(results) with the results of each pipeline whose decodes still run.
  template <class F>
  void late(const F& f) const {
    for (std::size_t i = 0; i < n_pipelines_; ++i)
      if (pipelines_[i].is_busy()) f(pipelines_[i].results());
  }

 private:
  std::vector<DeviceSteps> pipelines_;  // n_pipelines_ of them in use
  std::vector<DeviceGroup> groups_;     // n_groups_ of them in use
  std::size_t n_pipelines_ = 0, n_groups_ = 0;
};

}  // namespace mq
