// The wire of ternary codecs: which elements of a block are not 0, and their signs, in the smallest of
// several formats. It is independent of how the elements were chosen. Included once per instruction set,
// after entries-inl.hpp and ternary/format-inl.hpp.
//
// Wire, per block: TernaryHeader, then the payload. An *entry* is an element that is not 0. Size of the
// payload in bytes for c entries in a block of n:
//
//   gap     c + skips (at most n / 127): one byte per entry, the distance to the previous entry; put_gaps
//   u16     2 c + c / 8: positions, ascending, then one bit per entry, 1 = above
//   u32     4 c: position * 2 + sign; sent by the codec of Dryden et al. 2016, never chosen automatically
//   dense   n / 4: two bits per element
//   marked  n / 4 + sizeof(T): the value of the non-finite elements, then dense; these have both bits set
//
// The encoder chooses the smallest format, and the header names it. No payload is longer than marked, which
// is the bound of the wire.
#pragma once
#include "kernels/sparse/entries-inl.hpp"

inline constexpr std::array<std::string_view, 5> kTernaryFormats{"auto", "gap", "u16", "u32", "dense"};

template <bool kSigned>
std::size_t skips_of(const Entries& e) {
  std::uint32_t skips = e.count > 0 ? (e.entry[0] >> 1) / kSkip<kSigned> : 0;
  for (std::size_t i = 1; i < e.count; ++i)
    skips += ((e.entry[i] >> 1) - (e.entry[i - 1] >> 1) - 1) / kSkip<kSigned>;
  return skips;
}
template <bool kSigned>
MQ_INLINE std::byte gap_code(std::uint32_t gap, std::uint32_t entry) {
  return static_cast<std::byte>(kSigned ? gap << 1 | (entry & 1) : gap);
}
template <bool kSigned>
std::byte* put_gap(std::uint32_t gap, std::uint32_t entry, std::byte* out) {
  for (; gap >= kSkip<kSigned>; gap -= kSkip<kSigned>) *out++ = gap_code<kSigned>(kSkip<kSigned>, 0);
  *out++ = gap_code<kSigned>(gap, entry);
  return out;
}
template <bool kSigned>
void put_gaps(const Entries& e, std::byte* out) {
  constexpr std::size_t kGroup = 8;  // entries at a time, unless one of them needs a skip
  std::uint32_t last = ~0u;          // position of the previous entry
  std::size_t i = 0;
  for (; i + kGroup <= e.count; i += kGroup) {
    std::uint32_t gap[kGroup], skip = 0;
    for (std::size_t j = 0; j < kGroup; ++j) {
      const std::uint32_t position = e.entry[i + j] >> 1;
      gap[j] = position - last - 1;
      last = position;
      skip |= gap[j] >= kSkip<kSigned>;
    }
    if (skip)
      for (std::size_t j = 0; j < kGroup; ++j) out = put_gap<kSigned>(gap[j], e.entry[i + j], out);
    else
      for (std::size_t j = 0; j < kGroup; ++j) *out++ = gap_code<kSigned>(gap[j], e.entry[i + j]);
  }
  for (; i < e.count; ++i) {
    out = put_gap<kSigned>((e.entry[i] >> 1) - last - 1, e.entry[i], out);
    last = e.entry[i] >> 1;
  }
}

inline void put_positions(const Entries& e, std::byte* out) {
  for (std::size_t i = 0; i < e.count; ++i) {
    const auto position = static_cast<std::uint16_t>(e.entry[i] >> 1);
    std::memcpy(out + 2 * i, &position, sizeof position);
  }
}
inline void put_u16(const Entries& e, std::byte* out) {
  std::byte* const signs = out + 2 * e.count;
  std::memset(signs, 0, (e.count + 7) / 8);
  put_positions(e, out);
  for (std::size_t i = 0; i < e.count; ++i)
    signs[i / 8] |= static_cast<std::byte>((e.entry[i] & 1) << (i % 8));
}

inline void put_sparse(TernaryFormat format, const Entries& e, std::byte* out) {
  switch (format) {
    case TernaryFormat::gap: return put_gaps<true>(e, out);
    case TernaryFormat::u16: return put_u16(e, out);
    default: std::memcpy(out, e.entry, 4 * e.count);
  }
}

// Calls visit(position, sign) for each entry of a sparse payload, in order. Returns false, perhaps after some
// visits, if encode cannot have written the payload for a block of n. In any case, the visited positions
// ascend and are below n, and there are at most `count` visits.
template <bool kSigned, class Visit>
MQ_INLINE bool visit_gaps(const std::byte* in, std::size_t bytes, std::size_t count, std::size_t n,
                          Visit& visit) {
  std::size_t position = 0, visited = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto code = std::to_integer<std::uint32_t>(in[i]);
    const std::uint32_t gap = kSigned ? code >> 1 : code, sign = kSigned ? code & 1 : 0;
    position += gap;
    if (gap == kSkip<kSigned>) {
      if (sign != 0 || i + 1 == bytes) return false;
      continue;
    }
    if (position >= n || visited == count) return false;
    visit(position++, sign);
    ++visited;
  }
  return visited == count;
}

template <class Visit>
MQ_INLINE bool visit_positions(const std::byte* in, std::size_t count, std::size_t n, Visit& visit) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t position;
    std::memcpy(&position, in + 2 * i, sizeof position);
    if (position < next || position >= n) return false;
    visit(position, i);
    next = std::size_t{position} + 1;
  }
  return true;
}

template <class Visit>
struct WithSign {
  const std::byte* signs;
  Visit& visit;
  MQ_INLINE void operator()(std::size_t position, std::size_t i) const {
    visit(position, std::to_integer<std::uint32_t>(signs[i / 8]) >> (i % 8) & 1);
  }
};
template <class Visit>
MQ_INLINE bool visit_u16(const std::byte* in, std::size_t count, std::size_t n, Visit& visit) {
  const std::byte* const signs = in + 2 * count;
  WithSign<Visit> signed_visit{signs, visit};
  if (!visit_positions(in, count, n, signed_visit)) return false;
  return count % 8 == 0 || std::to_integer<std::uint32_t>(signs[count / 8]) >> (count % 8) == 0;
}

template <class Visit>
MQ_INLINE bool visit_u32(const std::byte* in, std::size_t count, std::size_t n, Visit& visit) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t entry;
    std::memcpy(&entry, in + 4 * i, sizeof entry);
    const std::size_t position = entry >> 1;
    if (position < next || position >= n) return false;
    visit(position, entry & 1);
    next = position + 1;
  }
  return true;
}

template <class Visit>
MQ_INLINE bool visit_sparse(TernaryFormat format, const std::byte* in, std::size_t bytes, std::size_t count,
                            std::size_t n, Visit& visit) {
  if (bytes > dense_bytes(n)) return false;
  if (format == TernaryFormat::gap) return visit_gaps<true>(in, bytes, count, n, visit);
  if (bytes != sparse_bytes(format, count, 0)) return false;
  return format == TernaryFormat::u16 ? visit_u16(in, count, n, visit) : visit_u32(in, count, n, visit);
}
