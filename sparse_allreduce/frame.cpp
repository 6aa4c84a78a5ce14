#include "sparse_allreduce/frame.hpp"

#include <cstring>
#include <string>

#include "sparse_allreduce/positions.hpp"

namespace mq::sparse {
namespace {

Status malformed(int from) {
  return status_of(Code::bad_frame,
                   [&] { return "rank " + std::to_string(from) + " sent a malformed sparse vector"; });
}

constexpr std::uint64_t kNarrow = std::uint64_t{1} << 32;

// Writes the indices of the range that are not in `list` to `holes`, which has room for all of them.
void complement(std::span<const std::uint64_t> list, Range range, std::span<std::uint64_t> holes) {
  std::uint64_t next = range.low;
  std::size_t n = 0;
  for (const std::uint64_t index : list) {
    while (next < index) holes[n++] = next++;
    next = index + 1;
  }
  while (next < range.high) holes[n++] = next++;
}

}  // namespace

std::uint64_t dense_bytes(const Entry& entry, std::uint64_t width) {
  constexpr std::uint64_t most = std::uint64_t{1} << 63;
  return width > most / entry.bytes() ? most : width * entry.bytes();
}

std::uint64_t frame_limit(const Entry& entry, std::uint64_t width) {
  const std::uint64_t dense = dense_bytes(entry, width);
  return dense + kFrameExtra + (width < kNarrow ? 0 : dense / 64);
}

void write_frame(const Entry& entry, const List& list, Range range, Workspace& memory, std::byte* wire,
                 Header& header) {
  const std::size_t count = list.indices.size(), value_bytes = count * entry.bytes();
  if (list.values != wire && value_bytes > 0) std::memcpy(wire, list.values, value_bytes);
  std::size_t positions = encode_positions(list.indices, wire + value_bytes, range.low);
  header.format = static_cast<std::uint32_t>(FrameFormat::list);
  if (range.width() < kNarrow && value_bytes + positions > dense_bytes(entry, range.width())) {
    const auto holes = memory.take<std::uint64_t>(static_cast<std::size_t>(range.width() - count));
    complement(list.indices, range, holes);
    header.format = static_cast<std::uint32_t>(FrameFormat::holes);
    // They fit: 4 * holes < positions <= 4 * entries + 16, and the buffer has room for 8 * entries + 32.
    positions = encode_positions(holes, wire + value_bytes, range.low);
  }
  header.counts[0] = count;
  header.counts[1] = positions;
  header.payload_bytes = (value_bytes + positions + 7) / 8 * 8;
  std::memset(wire + value_bytes + positions, 0, header.payload_bytes - value_bytes - positions);
}

Status check_frame(const Entry& entry, const Header& header, Range range, int from) {
  const std::uint64_t count = header.counts[0], positions = header.counts[1], bytes = header.payload_bytes;
  if (count > range.width() || bytes > frame_limit(entry, range.width()) || count > bytes / entry.bytes())
    return malformed(from);
  const std::uint64_t rest = bytes - count * entry.bytes();
  if (positions > rest || rest - positions > 7) return malformed(from);
  switch (static_cast<FrameFormat>(header.format)) {
    case FrameFormat::list: return {};
    case FrameFormat::holes:
      // write_frame sends holes only under this condition. It stops a short frame from requesting memory for
      // many holes.
      if (range.width() < kNarrow && range.width() - count <= count + 4) return {};
      break;
    default: break;
  }
  return malformed(from);
}

Status read_frame(const Header& header, std::span<const std::byte> payload, const Entry& entry, Range range,
                  int from, Workspace& memory, std::span<std::uint64_t> indices) {
  const std::span<const std::byte> wire = positions_of(header, payload, entry);
  if (header.format == static_cast<std::uint32_t>(FrameFormat::list))
    return decode_positions(wire, range.low, range.high, indices, range.low) ? Status{} : malformed(from);
  const auto holes = memory.take<std::uint64_t>(static_cast<std::size_t>(range.width() - indices.size()));
  if (!decode_positions(wire, range.low, range.high, holes, range.low)) return malformed(from);
  complement(holes, range, indices);
  return {};
}

}  // namespace mq::sparse
