#include "mpi_quant/engine/frame_check.hpp"

#include <cstring>

namespace mq {

Status frame_too_long(const FramePlace& place, std::size_t bound) noexcept {
  return bad_frame(place,
                   [&] { return "a frame is longer than the bound of " + std::to_string(bound) + " bytes"; });
}

Status check_length(const FramePlace& place, std::size_t room, std::size_t bytes) noexcept {
  if (bytes < sizeof(FrameHeader))
    return bad_frame(place, [&] { return "a frame of " + std::to_string(bytes) + " bytes has no header"; });
  return bytes > room ? frame_too_long(place, room) : Status{};
}

Status check_header(const FramePlace& place, const std::byte* header, std::size_t bytes) noexcept {
  FrameHeader h;
  std::memcpy(&h, header, sizeof h);
  if (h.magic != kFrameMagic || h.version != kWireVersion)
    return bad_frame(place, [&] {
      return "a message is not an mpi_quant frame of version " + std::to_string(kWireVersion);
    });
  if (h.error_code != 0)
    return status_of(Code::peer_failed,
                     [&] { return "a peer gave up (code " + std::to_string(h.error_code) + ")"; });
  if (h.call != place.call || h.segment != static_cast<std::uint32_t>(place.segment) ||
      h.chunk != static_cast<std::uint32_t>(place.chunk))
    return bad_frame(place, [&] {
      return "a frame of another call, or for segment " + std::to_string(h.segment) + ", chunk " +
             std::to_string(h.chunk);
    });
  if (h.payload_bytes != bytes - sizeof h)
    return bad_frame(place, [&] {
      return "the header promises " + std::to_string(h.payload_bytes) + " bytes, " +
             std::to_string(bytes - sizeof h) + " came";
    });
  return {};
}

}  // namespace mq
