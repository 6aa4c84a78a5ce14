// The part of the ternary codecs' wire that host and device rows share: formats, header, length of a payload,
// choice of a block's format, and the means of its sides. Included once per instruction set, and once for the
// device, after keys-inl.hpp. The layout is described in kernels/ternary/wire-inl.hpp.
#pragma once
#include "kernels/sparse/keys-inl.hpp"

enum class TernaryFormat : std::uint32_t { best, gap, u16, u32, dense, marked };

template <class T>
struct TernaryHeader {
  std::uint32_t format_count;  // format * 2^24 + number of entries
  std::uint32_t payload_bytes;
  T value[2];  // of the entries below 0, and of those above

  MQ_HD MQ_INLINE TernaryHeader() {}  // not implicit: that would be compiled for the baseline processor
  MQ_HD MQ_INLINE TernaryHeader(T below, T above) : value{below, above} {}
  MQ_HD MQ_INLINE void set(TernaryFormat format, std::size_t count, std::size_t bytes) {
    format_count = static_cast<std::uint32_t>(format) << 24 | static_cast<std::uint32_t>(count);
    payload_bytes = static_cast<std::uint32_t>(bytes);
  }
  MQ_HD MQ_INLINE TernaryFormat format() const { return static_cast<TernaryFormat>(format_count >> 24); }
  MQ_HD MQ_INLINE std::size_t count() const { return format_count & 0xffffff; }
  // Checks what can be checked with the header alone.
  MQ_HD MQ_INLINE bool valid() const {
    constexpr T kMax = kMaxMagnitude<T>;
    return format() >= TernaryFormat::gap && format() <= TernaryFormat::marked && value[0] >= -kMax &&
           value[0] <= 0 && value[1] >= 0 && value[1] <= kMax;
  }
};
static_assert(sizeof(TernaryHeader<float>) == 16 && sizeof(TernaryHeader<double>) == 24);

MQ_HD constexpr std::size_t dense_bytes(std::size_t n) { return (2 * n + 7) / 8; }

// Size of a payload of `count` entries. In gap format, each skip adds one byte.
MQ_HD constexpr std::size_t sparse_bytes(TernaryFormat format, std::size_t count, std::size_t skips) {
  return format == TernaryFormat::gap   ? count + skips
         : format == TernaryFormat::u16 ? 2 * count + (count + 7) / 8
                                        : 4 * count;
}

// The format of a block: the requested one, or dense if the requested one is longer than dense. For best, the
// first of the shortest.
MQ_HD constexpr TernaryFormat choose_format(TernaryFormat asked, std::size_t count, std::size_t skips,
                                            std::size_t n) {
  TernaryFormat chosen = asked;
  if (asked == TernaryFormat::best)
    chosen = sparse_bytes(TernaryFormat::u16, count, 0) < sparse_bytes(TernaryFormat::gap, count, skips)
                 ? TernaryFormat::u16
                 : TernaryFormat::gap;
  const bool fits = chosen != TernaryFormat::dense && sparse_bytes(chosen, count, skips) <= dense_bytes(n);
  return fits ? chosen : TernaryFormat::dense;
}

// Gap format, one byte per entry. With signs, bit 0 is the sign (1 = above), and the other 7 bits are the
// number of elements since the previous entry. Without signs, all 8 bits are that number. The greatest number
// is no entry: it skips that number of elements.
template <bool kSigned>
inline constexpr std::uint32_t kSkip = kSigned ? 127 : 255;

// Sums of the entries of both sides, with the same bits on every instruction set, on a device and for every
// format. Element i of a block is added to part i % 8, in order, in double; then the parts are joined by
// halving. If a total is not finite, the sum is repeated with a smaller scale.
inline constexpr int kSideParts = 8;
inline constexpr double kHugeScale = 0x1p-17;  // sums of 65536 finite terms stay finite
MQ_HD MQ_INLINE double side_total(const double (&part)[kSideParts]) {
  double half[kSideParts / 2];
  for (int i = 0; i < kSideParts / 2; ++i) half[i] = part[i] + part[i + kSideParts / 2];
  return (half[0] + half[2]) + (half[1] + half[3]);
}
template <class T>
MQ_HD MQ_INLINE T side_mean(double total, std::size_t count, double scale) {
  constexpr double kMax = static_cast<double>(kMaxMagnitude<T>);
  if (count == 0) return T{0};
  const double m = total / static_cast<double>(count) / scale;
  return static_cast<T>(m < -kMax ? -kMax : m > kMax ? kMax : m);  // rounding must not leave the range of T
}
