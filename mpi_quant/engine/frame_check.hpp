// Whether a frame that arrived is the one that a step waits for, and the words if it is not. Apart from the
// executor, which decides what follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {

// The frame that is expected.
struct FramePlace {
  std::uint64_t call = 0;  // hash of the call's signature
  std::size_t segment = 0;
  int chunk = 0;
};

// The header of this frame, but for the length of its payload.
inline FrameHeader header_of(const FramePlace& place) {
  FrameHeader header;
  header.call = place.call;
  header.segment = static_cast<std::uint32_t>(place.segment);
  header.chunk = static_cast<std::uint32_t>(place.chunk);
  return header;
}

// text() gives the reason.
template <class Text>
Status bad_frame(const FramePlace& place, const Text& text) noexcept {
  return status_of(Code::bad_frame, [&] {
    return "segment " + std::to_string(place.segment) + ", chunk " + std::to_string(place.chunk) + ": " +
           text();
  });
}
Status frame_too_long(const FramePlace& place, std::size_t bound) noexcept;
// room: that the frame was received into; bytes: its length, more than the room if it did not fit.
Status check_length(const FramePlace& place, std::size_t room, std::size_t bytes) noexcept;
// Of a frame of a sound length. header: where it begins, or a copy of that.
Status check_header(const FramePlace& place, const std::byte* header, std::size_t bytes) noexcept;

}  // namespace mq
