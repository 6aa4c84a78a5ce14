// Where the codec's work of a job runs: what the executor needs of the processor (host_steps.hpp) or of a
// device (device/steps.hpp). It names neither.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/plan/layout.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

struct Job;

// What became of one encode or decode.
struct StepResult {
  kernels::Encoded encoded;
  kernels::Decoded decoded = kernels::Decoded::ok;
  Status status;  // of the device, or of the frame
  double seconds = 0;
};

// The encodes and decodes of one lane, in the order of the plan. Of a backend that is not asynchronous only
// start_segment, encode and decode are called.
class Steps {
 public:
  virtual ~Steps() = default;
  virtual void start_segment(std::size_t segment) = 0;
  // wire is behind the header's place in its frame, and has room for the codec's bound of the chunk. True:
  // the step was launched, and the wire stays as it is until the step is over. False: the step is over, and
  // result says all; after an error nothing of this lane runs any more. header: of the frame, but for its
  // length. final: no later step writes these elements. fetches_header: for received().
  virtual bool encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result) = 0;
  virtual bool decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
                      StepResult& result) = 0;

  // The next launched step that is over, in their order, and what became of it; or null. Each is told of
  // once.
  virtual const Step* over(StepResult&) { return nullptr; }
  // Of launched steps that over() has not told of: whether there are any, or an encode; and whether `step`
  // has to wait for one.
  virtual bool is_busy() const { return false; }
  virtual bool is_encoding() const { return false; }
  virtual bool holds_up(const Step&) const { return false; }

  // Of a backend with frames of its own: the frames of all slots, one after the other; where the header of a
  // frame has to be that is sent without a payload; and what the frame of a decode that is over begins with.
  virtual std::byte* frames() const { return nullptr; }
  virtual std::byte* header(int) const { return nullptr; }
  virtual const std::byte* received(const Step&) const { return nullptr; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Bytes that a lane needs in host memory beside its frames, a multiple of 64.
  virtual std::size_t lane_bytes(const Job& job, const Layout& layout) const = 0;
  // The steps of all lanes of a job, lane i in memory of lane_bytes() at memory + i * stride, a 64-byte
  // boundary. Ends when the next job is prepared. May throw std::bad_alloc.
  virtual void prepare(const Job& job, const Layout& layout, std::size_t lanes, std::byte* memory,
                       std::size_t stride) = 0;
  virtual Steps& lane(std::size_t i) = 0;
  // Steps may be launched, and go on while the processor does something else.
  virtual bool is_asynchronous() const { return false; }
  // Frames are where the processor cannot read them: Steps::frames().
  virtual bool has_frames() const { return false; }
  // The job may be over while its last decodes still run.
  virtual bool may_outlast() const { return false; }
};

}  // namespace mq
