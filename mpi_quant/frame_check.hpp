// Whether a frame that arrived is the one that a step waits for, and the words if it is not. Apart from the
// executor, which decides what follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mpi_quant/base/status.hpp"

namespace mq {

// The frame that is expected.
struct FramePlace {
  std::uint64_t call = 0;  // hash of the call's signature
  std::size_t segment = 0;
  int chunk = 0;
};

// text() gives the reason.
template <class Text>
Status bad_frame(const FramePlace& place, const Text& text) noexcept {
  return status_of(Code::bad_frame, [&] {
    return "segment " + std::to_string(place.segment) + ", chunk " + std::to_string(place.chunk) + ": " +
           text();
  });
}
Status frame_too_long(const FramePlace& place, std::size_t bound) noexcept;
// in: the room that the frame was received into; bytes: its length, more than the room if it did not fit.
Status check_frame(const FramePlace& place, std::span<const std::byte> in, std::size_t bytes) noexcept;

}  // namespace mq
