// The codec's side of a job on a device: steps are launched into the lane's stream, one after the other, and
// an event of the step's slot says when each is over. Nothing here waits but where a launch has failed.
//
// Frames are in pinned host memory: an encode writes its payload there, through the bus; of a payload that is
// not short a decode reads a copy on the device, for decoders read some of it more than once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mpi_quant/chunk_places.hpp"
#include "mpi_quant/job.hpp"

namespace mq {

// What the device tells of the steps of a slot. In pinned memory.
struct DeviceResult {
  kernels::DeviceEncoded encoded;
  std::uint32_t malformed;
};

class DeviceChunks {
 public:
  // Bytes of a lane on the device and, for the results, in pinned memory; multiples of 256 and of 64.
  static std::size_t device_bytes(const Job& job, const Layout& layout);
  static std::size_t pinned_bytes(const Job& job);
  // lane.memory has device_bytes(), results pinned_bytes(). May throw std::bad_alloc.
  void prepare(const Job& job, const Layout& layout, const DeviceLane& lane, std::byte* results);
  void start_segment(std::size_t segment) { places_.start_segment(segment); }

  // The steps, in the order of the plan. True: launched; the wire stays as it is until it is over. False: it
  // is over, and result says all; after an error nothing of this lane runs any more.
  bool encode(const Step& step, std::byte* wire, StepResult& result);
  bool decode(const Step& step, bool final, std::span<const std::byte> wire, StepResult& result);
  // True if a launched step is over; then what became of it.
  bool over(const Step& step, StepResult& result);
  // Set by decodes whose end nobody waits for.
  std::span<const DeviceResult> results() const { return results_; }

 private:
  bool launched(const Step& step, Status status, StepResult& result);
  DeviceResult& result_of(const Step& step) const { return results_[static_cast<std::size_t>(step.slot)]; }

  const Job* job_ = nullptr;
  DeviceLane lane_;
  ChunkPlaces places_;
  std::span<DeviceResult> results_;  // by slot
  std::byte *scratch_ = nullptr, *wire_ = nullptr;
  std::size_t bound_ = 0;
};

}  // namespace mq
