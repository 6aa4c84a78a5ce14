// The codec's side of a job on a device: steps are launched into the lane's stream, one after the other, and
// an event of the step's slot says when each is over. Nothing here waits but where a launch has failed.
//
// Frames are in pinned host memory: an encode writes its payload there, through the bus; of a payload that is
// not short a decode reads a copy on the device, for decoders read some of it more than once.
//
// Or, with DeviceJob::device_wire, on the device. Then the processor cannot read what they begin with:
// headers are copied, in the order of the stream. That of an encoded chunk, but for its length, is known
// before the encode, which writes the length; that of a received one is looked at when its decode is over,
// for decoders bear with any bytes. Frames of a header alone are sent from pinned memory: also a device that
// has failed can say so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi_quant/engine/chunk_places.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/engine/job.hpp"

namespace mq {

// What the device tells of the steps of a slot. In pinned memory.
struct DeviceResult {
  std::array<std::byte, offsetof(FrameHeader, payload_bytes)> head;  // with encoded.bytes a header
  kernels::DeviceEncoded encoded;
  std::uint32_t malformed;
  std::array<std::byte, sizeof(FrameHeader)> received;  // of the frame that was decoded
};
static_assert(offsetof(DeviceResult, head) == 0 &&
              offsetof(DeviceResult, encoded) == offsetof(FrameHeader, payload_bytes) &&
              sizeof(FrameHeader) == offsetof(FrameHeader, payload_bytes) + sizeof(std::uint64_t));

class DeviceChunks {
 public:
  // Bytes of a lane on the device and, for the results, in pinned memory; multiples of 256 and of 64.
  static std::size_t device_bytes(const Job& job, const Layout& layout);
  static std::size_t pinned_bytes(const Job& job);
  // job.plan has the steps that follow. lane.memory has device_bytes(), results pinned_bytes(). May throw
  // std::bad_alloc.
  void prepare(const Job& job, const Layout& layout, const DeviceLane& lane, std::byte* results);
  void start_segment(std::size_t segment) { places_.start_segment(segment); }

  // With DeviceJob::device_wire: the frames of all slots, one after the other, on the device; and where the
  // header of a frame has to be that is sent without a payload.
  std::byte* frames() const { return wire_; }
  std::byte* header(int slot) const {
    return reinterpret_cast<std::byte*>(&results_[static_cast<std::size_t>(slot)]);
  }

  // The steps, in the order of the plan; wire is behind the header's place in its frame. True: launched; the
  // wire stays as it is until it is over. False: it is over, and result says all; after an error nothing of
  // this lane runs any more. header: of the frame, but for its length. fetches_header: for received().
  bool encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result);
  bool decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
              StepResult& result);
  // What an earlier job, which may outlast its execution, has left under way.
  void forget() { launched_.clear(); }
  // The next launched step that is over, in their order, and what became of it; or null. Each is told of
  // once.
  const Step* over(StepResult& result);
  // Of launched steps that over() has not told of: whether there are any, or an encode; and whether `step`
  // has to wait for one. Codec steps of a lane come one after the other in its stream, but a slot has one
  // event; and the processor needs what an encode writes, and room where a decode still reads.
  bool is_busy() const { return !launched_.empty(); }
  bool is_encoding() const;
  bool holds_up(const Step& step) const;
  // What the frame of a decode that is over begins with, with DeviceJob::device_wire.
  const std::byte* received(const Step& step) const { return result_of(step).received.data(); }
  // Set by decodes whose end nobody waits for, too.
  std::span<const DeviceResult> results() const { return results_; }

 private:
  Status launch(const Step& step, const ChunkPlaces::Encode& e, const FrameHeader& header);
  Status launch(const Step& step, ChunkPlaces::Decode d, bool fetches_header);
  // The beginning of a step, for the clock; and what comes after its launches, of which `status` is what is
  // known so far.
  Status begin(const Step& step) const;
  bool launched(const Step& step, Status status, StepResult& result);
  bool is_over(const Step& step, StepResult& result);
  DeviceResult& result_of(const Step& step) const { return results_[static_cast<std::size_t>(step.slot)]; }

  DeviceEvent* end_of(const Step& step) const { return lane_.events[static_cast<std::size_t>(step.slot)]; }
  DeviceEvent* beginning_of(const Step& step) const {
    return lane_.events[results_.size() + static_cast<std::size_t>(step.slot)];
  }

  const Job* job_ = nullptr;
  DeviceLane lane_;
  ChunkPlaces places_;
  std::span<DeviceResult> results_;  // by slot
  std::byte* scratch_ = nullptr;
  std::byte* wire_ = nullptr;  // frames(), or a payload to be decoded
  std::size_t bound_ = 0;
  std::vector<const Step*> launched_;
};

}  // namespace mq
