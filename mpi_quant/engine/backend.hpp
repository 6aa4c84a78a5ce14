// Where the codec of a reduction runs. This is what the executor needs from the processor (host_steps.hpp) or
// from a device (device/steps.hpp). It names neither.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/plan/layout.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

struct Reduction;

// The result of one encode or decode.
struct StepResult {
  kernels::Encoded encoded;
  kernels::Decoded decoded = kernels::Decoded::ok;
  Status status;  // error of the device or of the frame
  double seconds = 0;
};

// The encodes and decodes of one segment in flight, in the order of the plan. If the backend is not
// asynchronous, only start_segment, encode and decode are called.
class Steps {
 public:
  virtual ~Steps() = default;
  virtual void start_segment(std::size_t segment) = 0;
  // encode and decode return true if the step was launched. The wire must then stay as it is until the step
  // is over. They return false if the step is over: `result` is then complete, and after an error no launched
  // step of this segment runs any more.
  //
  // encode: `wire` is the room after the header of the frame, enough for the codec's bound of the chunk.
  // `header` is the frame's header without its length. decode: `final` means that no later step writes these
  // elements. `fetches_header` means that received() will be asked for the header.
  virtual bool encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result) = 0;
  virtual bool decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
                      StepResult& result) = 0;

  // decode of several frames in one pass, for a backend with most_summed() > 1. The steps follow each other
  // in the plan and decode into one chunk; all but the first are decode_add. The wires are in their order.
  virtual void decode_sum(std::span<const Step>, bool, std::span<const kernels::WireView>, StepResult&) {}

  // The next launched step that is over, in the order of launches, and its result. Null if there is none.
  // Each step is returned once.
  virtual const Step* over(StepResult&) { return nullptr; }
  // About launched steps that over() has not returned yet: are there any, is one an encode, and must `step`
  // wait for one?
  virtual bool is_busy() const { return false; }
  virtual bool is_encoding() const { return false; }
  virtual bool holds_up(const Step&) const { return false; }

  // For a backend that keeps frames in its own memory. frames: the frames of all slots, one after the other.
  // header: where the processor writes the header of a frame without payload. received: the first bytes of
  // the frame of a decode that is over.
  virtual std::byte* frames() const { return nullptr; }
  virtual std::byte* header(int) const { return nullptr; }
  virtual const std::byte* received(const Step&) const { return nullptr; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Bytes of host memory that one segment in flight needs beside its frames. A multiple of 64.
  virtual std::size_t pipeline_bytes(const Reduction& reduction, const Layout& layout) const = 0;
  // Makes the steps of all segments in flight of a reduction. Number i gets pipeline_bytes() of memory at
  // memory + i * stride, at a 64-byte boundary. They are valid until the next call. May throw std::bad_alloc.
  virtual void prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines,
                       std::byte* memory, std::size_t stride) = 0;
  virtual Steps& pipeline(std::size_t i) = 0;
  // True if steps may be launched and run while the processor does something else.
  virtual bool is_asynchronous() const { return false; }
  // How many frames of one chunk a decode may take at once. 1: Steps::decode_sum is not called.
  virtual std::size_t most_summed(const Reduction&) const { return 1; }
  // True if the frames are in memory that the processor cannot read: Steps::frames().
  virtual bool has_frames() const { return false; }
  // For an asynchronous backend. together: how many neighbours of this many segments in flight should have
  // the same codec step at the same time. launch: after encode and decode of several segments; only now need
  // they run. False if the device has failed, of which over() gives the reason.
  virtual std::size_t together(std::size_t) const { return 1; }
  // For an asynchronous backend: asks the device what is over. Steps::over() tells what the last look saw.
  virtual void look() {}
  virtual bool launch() { return true; }
  // True if a reduction may end while its last decodes still run.
  virtual bool may_outlast() const { return false; }
};

}  // namespace mq
