// Integers of any width below that of a word, packed without gaps: the words of 32 bytes of a row of the matrix `z` are
// the lanes, and each lane packs its own column, from the lowest bit of its first word on. So a shift works on a whole
// register. A word is 4 or 8 bytes.
#pragma once

template <class Word>
struct BitPacking {
  static constexpr int kBits = 8 * static_cast<int>(sizeof(Word));
  static constexpr std::size_t kRowBytes = 32, kColumns = kRowBytes / sizeof(Word);
  typedef Word Row __attribute__((vector_size(32)));

  static constexpr std::size_t rows_of(std::size_t n) { return (n + kColumns - 1) / kColumns; }
  static constexpr std::size_t bytes(std::size_t n, int width) {
    return (rows_of(n) * static_cast<std::size_t>(width) + kBits - 1) / kBits * kRowBytes;
  }

  // z has rows_of(n) whole rows; all numbers are below 2^width.
  static MQ_INLINE void pack(std::byte* to, const Word* z, std::size_t n, int width) {
    if (width == 0) return;
    Row word{};
    int filled = 0;
    for (std::size_t r = 0; r < rows_of(n); ++r) {
      Row row;
      std::memcpy(&row, z + r * kColumns, kRowBytes);
      word |= row << filled;
      filled += width;
      if (filled < kBits) continue;
      std::memcpy(to, &word, kRowBytes);
      to += kRowBytes;
      filled -= kBits;
      word = filled > 0 ? row >> (width - filled) : Row{};
    }
    if (filled > 0) std::memcpy(to, &word, kRowBytes);
  }

  // False if a bit behind the last row's numbers is set.
  static MQ_INLINE bool unpack(const std::byte* from, Word* z, std::size_t n, int width) {
    if (width == 0) {
      std::memset(z, 0, rows_of(n) * kRowBytes);
      return true;
    }
    const Row mask = Row{} + static_cast<Word>(width == kBits ? ~Word{0} : (Word{1} << width) - 1);
    Row word{};
    int left = 0;  // bits of `word` that are not read yet, its lowest
    for (std::size_t r = 0; r < rows_of(n); ++r) {
      Row row = word;
      if (left < width) {
        std::memcpy(&word, from, kRowBytes);
        from += kRowBytes;
        row |= word << left;
        word = width - left < kBits ? word >> (width - left) : Row{};
        left += kBits - width;
      } else {
        word >>= width;
        left -= width;
      }
      row &= mask;
      std::memcpy(z + r * kColumns, &row, kRowBytes);
    }
    Word rest = 0;
    for (std::size_t c = 0; c < kColumns; ++c) rest |= word[c];
    return rest == 0;
  }
};
