// The parameters of fft, and the header and the lengths of a chunk. fft.hpp describes the layout.
#pragma once

// Bytes of the parts of coefficients: groups of 32 are packed; in an incomplete group each part takes a byte.
MQ_HD constexpr std::size_t fft_part_bytes(std::uint32_t bits, std::size_t element_bytes, std::size_t parts) {
  return bits == 32 ? parts * element_bytes : parts / 32 * 4 * bits + parts % 32;
}
// n, from 16 on, up to the next power of two.
MQ_HD constexpr std::uint32_t fft_padded(std::uint32_t n) {
  std::uint32_t padded = 16;
  while (padded < n) padded *= 2;
  return padded;
}

struct FftHeader {
  enum Format : std::uint16_t { plain, coefficients, kept, lost };
  std::int16_t exponent;  // the chunk is multiplied by 2^-exponent before the transform
  std::uint16_t format;
};

struct FftParams {
  double keep;
  int bits;
  std::size_t chunk;
  Params range;  // of the small floats
  explicit FftParams(const Params& p)
      : keep(p.value[0]),
        bits(static_cast<int>(p.value[1])),
        chunk(static_cast<std::size_t>(p.value[3])),
        range{{static_cast<double>(std::min(bits, 8)), p.value[2]}} {}
  bool exact() const { return bits == 32; }
  static bool plain(std::size_t n) { return n < 16; }
  // The coefficients of n elements, and the greatest number of them that is sent.
  static std::size_t coefficients(std::size_t n) { return std::bit_ceil(n) / 2 + 1; }
  std::size_t most(std::size_t n) const {
    return static_cast<std::size_t>(std::ceil(keep * static_cast<double>(coefficients(n))));
  }
  template <class T>
  std::size_t part_bytes(std::size_t parts) const {
    return fft_part_bytes(static_cast<std::uint32_t>(bits), sizeof(T), parts);
  }
  template <class T>
  std::size_t bound(std::size_t n) const {
    if (plain(n)) return sizeof(FftHeader) + n * sizeof(T);
    const std::size_t top = exact() ? 0 : sizeof(T), bitmap = (coefficients(n) + 7) / 8;
    return sizeof(FftHeader) +
           std::max(top + bitmap + most_part_bytes<T>(2 * most(n)), sizeof(T) + (n + 7) / 8);
  }
  // Of at most so many parts, an even number. An incomplete group of 30 parts, a byte each, may take more
  // than a whole one.
  template <class T>
  std::size_t most_part_bytes(std::size_t parts) const {
    const std::size_t incomplete = (parts + 2) / 32 * 32;
    return std::max(part_bytes<T>(parts), incomplete >= 32 ? part_bytes<T>(incomplete - 2) : 0);
  }
};
