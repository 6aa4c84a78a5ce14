// Sparse vectors as they come over the wire: positions, frames and the merge of lists. What is accepted is a
// strictly ascending list within its range, and every way of merging gives the same bits.
#include "sparse_allreduce/frame.hpp"
#include "sparse_allreduce/positions.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace mq::sparse {
namespace {

using fuzz::Bytes;
using fuzz::require;
using Indices64 = std::vector<std::uint64_t>;
using Wire = std::vector<std::byte>;

bool is_list(std::span<const std::uint64_t> indices, Range range) {
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (indices[i] < range.low || indices[i] >= range.high || (i > 0 && indices[i - 1] >= indices[i]))
      return false;
  return true;
}

Range take_range(Bytes& bytes) {
  constexpr std::uint64_t top = std::uint64_t{1} << 63;
  const auto way = bytes.take<std::uint8_t>();
  const std::uint64_t low = way & 1 ? bytes.take<std::uint64_t>() % top : 0;
  const std::uint64_t width = way & 2 ? bytes.take<std::uint64_t>() % top : bytes.take<std::uint16_t>();
  return {low, low + std::clamp<std::uint64_t>(width, 1, top - low)};
}

// An ascending list, from gaps of one byte, or of four.
Indices64 take_list(Bytes& bytes, Range range) {
  Indices64 list;
  const std::size_t most = bytes.below(1500);
  const bool wide = bytes.take<std::uint8_t>() % 2 != 0;
  for (std::uint64_t at = range.low; list.size() < most && !bytes.empty();) {
    const std::uint64_t gap = wide ? bytes.take<std::uint32_t>() : bytes.take<std::uint8_t>() / 4;
    if (gap >= range.high - at) break;
    list.push_back(at + gap);
    at += gap + 1;
    if (at == range.high) break;
  }
  return list;
}

Wire encoded(const Indices64& list, Range range) {
  fuzz::Guarded room(positions_bound(list.size()));
  const std::size_t n = encode_positions(list, room.data(), range.low);
  require(n <= positions_bound(list.size()) && room.intact(), "positions take no more than their bound");
  return {room.data(), room.data() + n};
}

// Whether these are positions of a list of `count`.
bool decodes(const Wire& wire, Range range, std::size_t count, Indices64& list) {
  list.assign(count, 0);
  list.shrink_to_fit();
  if (!decode_positions(wire, range.low, range.high, list, range.low)) return false;
  require(is_list(list, range), "decoded positions are a list within their range");
  return true;
}

template <class T>
std::vector<T> values_for(std::size_t n, std::size_t list) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>((i * 7 + list * 31) % 1000) - 300;
  return values;
}

struct Source {
  Wire wire;
  Indices64 list;
  std::size_t count = 0;
  bool sound = false;
};

Source take_source(Bytes& bytes, Range range) {
  Source source;
  const auto way = bytes.take<std::uint8_t>();
  if (way & 1) {
    source.count = bytes.below(3000);
    source.wire = bytes.take(bytes.below(600));
  } else {
    const Indices64 list = take_list(bytes, range);
    source.wire = encoded(list, range);
    require(decodes(source.wire, range, list.size(), source.list) && source.list == list,
            "positions come back");
    Bytes changes = bytes;
    if (way & 2) damage(changes, source.wire);
    source.count = list.size() + (way & 4 ? 1 : 0);
  }
  source.sound = decodes(source.wire, range, source.count, source.list);
  return source;
}

template <class T>
void merge_sources(Bytes& bytes, const Entry& entry) {
  const Range range = take_range(bytes);
  std::vector<Source> sources;
  const std::size_t n = 1 + bytes.take<std::uint8_t>() % 4;
  const bool listed = bytes.take<std::uint8_t>() % 2 != 0;  // the indices beside the positions
  for (std::size_t i = 0; i < n; ++i) sources.push_back(take_source(bytes, range));
  std::vector<std::vector<T>> values;
  std::vector<Operand> operands;
  bool sound = true;
  std::size_t all = 0;
  for (const Source& source : sources) {
    values.push_back(values_for<T>(source.count * entry.stride, values.size()));
    operands.emplace_back(source.count, source.wire,
                          reinterpret_cast<const std::byte*>(values.back().data()));
    if (listed && source.sound) operands.back().indices = source.list;
    sound = sound && source.sound;
    all += source.count;
  }
  const std::size_t room = merge_room(operands, range.low, range.high);
  const auto merged = [&](MergeBy by, Indices64& indices, std::vector<T>& sums) {
    indices.assign(room, 0);
    sums.assign(room * entry.stride, 0);
    Workspace memory;
    std::size_t count = 0;
    const bool done = merge(entry, operands, range.low, range.high, memory, indices.data(),
                            reinterpret_cast<std::byte*>(sums.data()), count, by);
    require(done == sound, "a merge refuses positions that are malformed, and only those");
    if (!done) return;
    require(count <= room, "a merge keeps to its room");
    indices.resize(count);
    sums.resize(count * entry.stride);
    require(is_list(indices, range), "a merged list is a list within its range");
  };
  Indices64 indices, other;
  std::vector<T> sums, other_sums;
  merged(MergeBy::automatic, indices, sums);
  const bool small = range.width() < std::uint64_t{1} << 24;  // segments look at every position
  if (small) merged(MergeBy::segments, other, other_sums);
  if (sound && small) require(indices == other && sums == other_sums, "segments give the same");
  if (all > range.width()) return;
  merged(MergeBy::lists, other, other_sums);
  if (sound) require(indices == other && sums == other_sums, "lists give the same");
}

// A frame of any header; what is read from it is written and read again.
void frame(Bytes& bytes, const Entry& entry) {
  const Range range = take_range(bytes);
  Header header;
  header.format = bytes.take<std::uint8_t>();
  header.counts[0] = bytes.take<std::uint16_t>();
  const Wire payload = bytes.rest();
  header.payload_bytes = payload.size();
  const std::uint64_t values = header.counts[0] * entry.bytes();
  header.counts[1] = payload.size() - std::min<std::uint64_t>(values, payload.size());
  if (!payload.empty()) header.counts[1] -= static_cast<std::uint64_t>(payload.back()) % 9;
  if (!check_frame(entry, header, range, 1).ok()) return;
  const auto read = [&](const Header& head, std::span<const std::byte> wire, Indices64& list) {
    Workspace memory;
    list.assign(head.counts[0], 0);
    list.shrink_to_fit();
    return read_frame(head, wire, entry, range, 1, memory, list).ok();
  };
  Indices64 list, again;
  if (!read(header, payload, list)) return;
  require(is_list(list, range), "a frame's indices are a list within its range");
  fuzz::Guarded room(frame_room(entry, list.size()));
  Workspace memory;
  Header own;
  write_frame(entry, {list, payload.data()}, range, memory, room.data(), own);
  require(room.intact() && own.payload_bytes <= frame_limit(entry, range.width()), "a frame has a bound");
  require(check_frame(entry, own, range, 1).ok(), "a frame that is written passes the check");
  require(read(own, {room.data(), own.payload_bytes}, again) && again == list, "and is read as it was");
  require(values == 0 || std::memcmp(room.data(), payload.data(), values) == 0, "with its values");
}

}  // namespace
}  // namespace mq::sparse

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mq::fuzz::Bytes bytes(data, size);
  const auto way = bytes.take<std::uint8_t>();
  mq::sparse::Entry entry;
  if (way & 1) entry.element = mq::kernels::Element::f64;
  entry.op = std::array{mq::sparse::Op::sum, mq::sparse::Op::min, mq::sparse::Op::max}[(way >> 1) % 3];
  entry.stride = 1 + (way >> 3) % 3;
  if (way & 64)
    mq::sparse::frame(bytes, entry);
  else if (way & 1)
    mq::sparse::merge_sources<double>(bytes, entry);
  else
    mq::sparse::merge_sources<float>(bytes, entry);
  return 0;
}
