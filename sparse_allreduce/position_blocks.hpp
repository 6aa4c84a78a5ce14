// The formats of the blocks of an encoded list of positions: how each is written and read. positions.cpp
// chooses the format.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mq::sparse::blocks {

static_assert(std::endian::native == std::endian::little, "wire formats are little-endian");

inline constexpr unsigned kSegmentBits = 16;
inline constexpr std::uint64_t kSegment = std::uint64_t{1} << kSegmentBits;
inline constexpr std::size_t kWords = kSegment / 64;

enum class Format : std::uint8_t {
  wide64,  // count x u64, counted from the origin
  wide32,  // count x u32, counted from the base
  table,   // neighbouring segments: extra x u8, number of indices in each; then count x u16
  u16,     // count x u16
  gaps,    // extra bytes: position - previous - 1, or 255: skip 255 (algorithms after Strom 2015)
  bitmap,  // 64-bit words: extra = first word | (words - 1) << 16
  runs,    // extra pairs (u16 start, u16 length - 1)
  full,    // no body: `count` consecutive positions, the first at offset `extra`
};
inline constexpr std::uint64_t kFormats = 8;

struct Head {
  std::uint64_t base_and_format;  // base >> 16 << 8 | format
  std::uint32_t count;            // indices in the block
  std::uint32_t extra;
};
static_assert(sizeof(Head) == 16);

inline std::byte* put_head(std::byte* wire, Format format, std::uint64_t base, std::size_t count,
                           std::size_t extra) {
  const Head head{base >> kSegmentBits << 8 | static_cast<std::uint64_t>(format),
                  static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(extra)};
  std::memcpy(wire, &head, sizeof head);
  return wire + sizeof head;
}

template <class T>
T load(const std::byte* at, std::size_t i) {
  T value;
  std::memcpy(&value, at + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store(std::byte* at, std::size_t i, T value) {
  std::memcpy(at + i * sizeof(T), &value, sizeof(T));
}

// --- Writing: n > 0 indices; positions are counted from `base`. Functions return the end of what they wrote.

template <class T>
std::byte* write_wide(const std::uint64_t* indices, std::size_t n, std::uint64_t base, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) store<T>(out, i, static_cast<T>(indices[i] - base));
  return out + n * sizeof(T);
}

inline std::byte* write_table(const std::uint64_t* indices, std::size_t n, std::uint64_t base,
                              std::size_t segments, std::byte* out) {
  std::memset(out, 0, segments);
  std::uint64_t entries = 0, at = 0;  // kept in registers
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t here = (indices[i] - base) >> kSegmentBits;
    entries = (entries & -static_cast<std::uint64_t>(here == at)) + 1;
    at = here;
    out[here] = static_cast<std::byte>(entries);
  }
  return write_wide<std::uint16_t>(indices, n, base, out + segments);
}

inline std::byte* write_gaps(const std::uint64_t* indices, std::size_t n, std::uint64_t base,
                             std::byte* out) {
  std::uint64_t next = base;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t gap = indices[i] - next;
    for (; gap >= 255; gap -= 255) *out++ = std::byte{255};
    *out++ = static_cast<std::byte>(gap);
    next = indices[i] + 1;
  }
  return out;
}

inline std::byte* write_runs(const std::uint64_t* indices, std::size_t n, std::uint64_t base,
                             std::byte* out) {
  for (std::size_t i = 0; i < n;) {
    const std::size_t start = i;
    for (++i; i < n && indices[i] == indices[i - 1] + 1;) ++i;
    store<std::uint16_t>(out, 0, static_cast<std::uint16_t>(indices[start] - base));
    store<std::uint16_t>(out, 1, static_cast<std::uint16_t>(i - start - 1));
    out += 4;
  }
  return out;
}

// --- Reading: decodes n > 0 indices into `out`, which has room for exactly n, and adds `base` to every
// position. The input has the length that the header implies. False: the bytes are not n indices. The comment
// of each function says whether the caller must still check that the indices ascend. The caller always checks
// that they are within the bounds of the list.

// Does not check the order.
template <class T>
void read_wide(const std::byte* in, std::size_t n, std::uint64_t base, std::uint64_t* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = base + load<T>(in, i);
}

// Does not check the order.
inline bool read_table(const std::byte* in, std::size_t segments, std::size_t n, std::uint64_t base,
                       std::uint64_t* out) {
  const std::byte* const positions = in + segments;
  std::size_t done = 0;
  for (std::size_t s = 0; s < segments; ++s, base += kSegment) {
    const auto entries = std::to_integer<std::size_t>(in[s]);
    if (entries > n - done) return false;
    for (const std::size_t end = done + entries; done < end; ++done)
      out[done] = base + load<std::uint16_t>(positions, done);
  }
  return done == n;
}

// The result always ascends.
inline bool read_gaps(const std::byte* in, std::size_t bytes, std::size_t n, std::uint64_t base,
                      std::uint64_t* out) {
  if (bytes == 0 || in[bytes - 1] == std::byte{255}) return false;
  std::size_t entries = 0;
  for (std::size_t i = 0; i < bytes; ++i) entries += in[i] != std::byte{255};
  if (entries != n) return false;
  // A skip also writes to `out`; the next index overwrites it. There is a next index, because the last byte
  // is no skip.
  std::uint64_t next = base;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto gap = std::to_integer<std::uint64_t>(in[i]);
    const bool entry = gap != 255;
    *out = next + gap;
    out += entry;
    next += gap + entry;
  }
  return true;
}

// The result ascends, and runs do not overlap; otherwise returns false.
inline bool read_runs(const std::byte* in, std::size_t runs, std::size_t n, std::uint64_t base,
                      std::uint64_t* out) {
  std::size_t done = 0, free = 0;  // positions below `free` are taken
  for (std::size_t r = 0; r < runs; ++r) {
    const std::size_t start = load<std::uint16_t>(in, 2 * r),
                      length = load<std::uint16_t>(in, 2 * r + 1) + 1u;
    if (start < free || length > n - done || start + length > kSegment) return false;
    for (std::size_t i = 0; i < length; ++i) out[done + i] = base + start + i;
    done += length;
    free = start + length;
  }
  return done == n;
}

inline void read_full(std::size_t n, std::uint64_t first, std::uint64_t* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = first + i;
}

}  // namespace mq::sparse::blocks
