// Checks whether a frame that arrived is the one that a step waits for, and words the error if it is not. It
// is apart from the executor, which decides what follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {

// Identifies the frame that is expected.
struct FramePlace {
  std::uint64_t call = 0;  // hash of the call's signature
  std::size_t segment = 0;
  int chunk = 0;
};

// The header of this frame, without the length of its payload.
inline FrameHeader header_of(const FramePlace& place) {
  FrameHeader header;
  header.call = place.call;
  header.segment = static_cast<std::uint32_t>(place.segment);
  header.chunk = static_cast<std::uint32_t>(place.chunk);
  return header;
}

// An error about this frame. text() gives the reason.
template <class Text>
Status bad_frame(const FramePlace& place, const Text& text) noexcept {
  return status_of(Code::bad_frame, [&] {
    return "segment " + std::to_string(place.segment) + ", chunk " + std::to_string(place.chunk) + ": " +
           text();
  });
}
Status frame_too_long(const FramePlace& place, std::size_t bound) noexcept;
// room: bytes that the frame may have; bytes: its length, more than room if it did not fit.
Status check_length(const FramePlace& place, std::size_t room, std::size_t bytes) noexcept;
// For a frame whose length is valid. header: the beginning of the frame, or a copy of it.
Status check_header(const FramePlace& place, const std::byte* header, std::size_t bytes) noexcept;

}  // namespace mq
