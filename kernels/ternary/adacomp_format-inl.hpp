// The part of adacomp's wire that host and device rows share: parameters, entries and the header of a block.
// Included once per instruction set, and once for the device. The layout is described in adacomp.hpp.
#pragma once

struct AdaCompParams {
  std::size_t bin, block, entry;  // elements, elements, bytes
  explicit constexpr AdaCompParams(const Params& p)
      : bin(static_cast<std::size_t>(p.value[0])),
        block(std::max<std::size_t>(1, static_cast<std::size_t>(p.value[1]) / bin) * bin),
        entry(bin < 64 ? 1 : 2) {}
  // The parts of an entry.
  MQ_HD constexpr std::uint32_t none() const {
    return entry == 1 ? 0x3f : 0x3fff;
  }  // the position of an empty bin
  MQ_HD constexpr std::uint32_t above() const { return none() + 1; }
  MQ_HD constexpr std::uint32_t last() const { return 2 * above(); }
  MQ_HD constexpr std::size_t bins(std::size_t n) const { return (n + bin - 1) / bin; }
  // Copies of a length that compilers know, which are much faster.
  MQ_HD MQ_INLINE void put(std::uint32_t one, std::byte* out) const {
    const auto two = static_cast<std::uint16_t>(one);
    if (entry == 1)
      *out = static_cast<std::byte>(one);
    else
      memcpy(out, &two, sizeof two);
  }
  MQ_HD MQ_INLINE std::uint32_t get(const std::byte* in) const {
    std::uint16_t two = 0;
    if (entry == 1) return static_cast<std::uint32_t>(*in);
    memcpy(&two, in, sizeof two);
    return two;
  }
};

enum class AdaCompFormat : std::uint32_t { entries, dense, marked };

template <class T>
struct AdaCompHeader {
  std::uint32_t format_size;  // format * 2^30 + bytes of entries, or the number of elements that dense sends
  std::byte scale_bytes[sizeof(T)];

  MQ_HD MQ_INLINE AdaCompHeader() {}  // not implicit: that would be compiled for the baseline processor
  MQ_HD MQ_INLINE AdaCompHeader(AdaCompFormat format, std::size_t size, T scale)
      : format_size(static_cast<std::uint32_t>(format) << 30 | static_cast<std::uint32_t>(size)) {
    memcpy(scale_bytes, &scale, sizeof scale);
  }
  MQ_HD MQ_INLINE AdaCompFormat format() const { return static_cast<AdaCompFormat>(format_size >> 30); }
  MQ_HD MQ_INLINE std::size_t size() const { return format_size & ((1u << 30) - 1); }
  MQ_HD MQ_INLINE T scale() const {
    T scale;
    memcpy(&scale, scale_bytes, sizeof scale);
    return scale;
  }
};
