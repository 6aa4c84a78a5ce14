// Integers of any width less than a word's, packed without gaps: the words of 32 bytes of a row of a matrix
// are the lanes, and each lane packs its own column, from the lowest bit of its first word on. So a shift
// works on a whole register. A word is 4 or 8 bytes.
//
// A number k of `width` bits, from -2^(width - 1) to 2^(width - 1) - 1, is packed as k + 2^(width - 1). In
// memory numbers are k + zero, for any `zero`. kernels/lattice/lattice.hpp says where packed numbers lie.
#pragma once

template <class Word>
struct BitPacking : PackedRows<Word> {
  using PackedRows<Word>::kBits, PackedRows<Word>::kColumns, PackedRows<Word>::kRowBytes;
  using PackedRows<Word>::half_of, PackedRows<Word>::quarter_of;
  typedef Word Row __attribute__((vector_size(32)));

  // All numbers fit in this width, from 1 to kBits - 1.
  static MQ_INLINE void pack(std::byte* to, const Word* k, std::size_t rows, int width, Word zero) {
    if (rows % 4 == 0 && 4 * width <= kBits)
      pack_by<4>(to, k, rows, width, zero);
    else
      pack_by<1>(to, k, rows, width, zero);
  }
  // False if pack cannot have written it: a bit behind the last number is set, or all numbers have a lower
  // width.
  static MQ_INLINE bool unpack(const std::byte* from, Word* k, std::size_t rows, int width, Word zero) {
    if (width == 0) {
      std::fill(k, k + rows * kColumns, zero);
      return true;
    }
    return rows % 4 == 0 && 4 * width <= kBits ? unpack_by<4>(from, k, rows, width, zero)
                                               : unpack_by<1>(from, k, rows, width, zero);
  }

  // Replaces k[i], a difference to the number before, by the number. The first is `first` + k[0]. False if a
  // number is below zero - limit or from zero + limit on, a power of two.
  static MQ_INLINE bool add_up(Word* k, std::size_t rows, Word first, Word zero, Word limit) {
    if constexpr (Native<float>::kWidth == 1) {  // without such registers one after another is faster
      Word outside = 0;
      for (std::size_t i = 0; i < rows * kColumns; ++i) {
        k[i] = first += k[i];
        outside |= first - zero + limit;
      }
      return outside < 2 * limit;
    }
    Row before = Row{} + first, outside{};
    for (std::size_t r = 0; r < rows; ++r) {
      Row sum = load(k + r * kColumns);
      sum += moved_up<1>(sum);
      sum += moved_up<2>(sum);
      if constexpr (kColumns == 8) sum += moved_up<4>(sum);
      sum += before;
      store(k + r * kColumns, sum);
      outside |= sum - zero + limit;
      before = Row{} + sum[kColumns - 1];
    }
    return any_bit(outside) < 2 * limit;
  }

  // Whether the differences between neighbours within these rows have this width.
  static MQ_INLINE bool differences_have(const Word* k, std::size_t rows, int width) {
    Row any{};
    for (std::size_t r = 0; r < rows; ++r) {
      const Row row = load(k + r * kColumns);
      any |= (row - moved_up<1>(row) + half_of(width)) & kAllButFirst;
    }
    return any_bit(any) >> width == 0;
  }

 private:
  static constexpr Row kAllButFirst = ~Row{static_cast<Word>(~Word{0})};

  static MQ_INLINE Row load(const Word* at) {
    Row row;
    std::memcpy(&row, at, sizeof row);
    return row;
  }
  static MQ_INLINE void store(void* at, const Row& row) { std::memcpy(at, &row, sizeof row); }

  // The bits that any number of the row has.
  static MQ_INLINE Word any_bit(const Row& row) {
    typedef std::uint64_t Words __attribute__((vector_size(32)));
    const auto word = reinterpret_cast<Words>(row);
    const std::uint64_t any = (word[0] | word[1]) | (word[2] | word[3]);
    return static_cast<Word>(any | any >> (64 - kBits));
  }
  // Each number kBy columns further. The first become 0.
  template <int kBy>
  static MQ_INLINE Row moved_up(const Row& row) {
    if constexpr (kColumns == 8)
      return __builtin_shufflevector(Row{}, row, 8 - kBy, 9 - kBy, 10 - kBy, 11 - kBy, 12 - kBy, 13 - kBy,
                                     14 - kBy, 15 - kBy);
    else
      return __builtin_shufflevector(Row{}, row, 4 - kBy, 5 - kBy, 6 - kBy, 7 - kBy);
  }

  // kRows rows at a time, which fit in a word together.
  template <int kRows>
  static MQ_INLINE void pack_by(std::byte* to, const Word* k, std::size_t rows, int width, Word zero) {
    const Word offset = half_of(width) - zero;
    Row word{};
    int filled = 0;
    for (std::size_t r = 0; r < rows; r += kRows, k += kRows * kColumns) {
      Row some = load(k) + offset;
      for (int i = 1; i < kRows; ++i)
        some |= (load(k + static_cast<std::size_t>(i) * kColumns) + offset) << (i * width);
      word |= some << filled;
      filled += kRows * width;
      if (filled < kBits) continue;
      store(to, word);
      to += kRowBytes;
      filled -= kBits;
      word = filled > 0 ? some >> (kRows * width - filled) : Row{};
    }
    if (filled > 0) store(to, word);
  }

  template <int kRows>
  static MQ_INLINE bool unpack_by(const std::byte* from, Word* k, std::size_t rows, int width, Word zero) {
    const Row mask = Row{} + ((Word{1} << width) - 1);
    const Word offset = zero - half_of(width);
    const Word quarter = quarter_of(width);
    Row word{}, top{};
    int left = 0;  // bits of `word` that are not read yet, its lowest
    for (std::size_t r = 0; r < rows; r += kRows) {
      Row some = word;
      const int missing = kRows * width - left;
      if (missing > 0) {
        std::memcpy(&word, from, kRowBytes);
        from += kRowBytes;
        some |= word << left;
        word = missing < kBits ? word >> missing : Row{};
        left = kBits - missing;
      } else {
        word >>= kRows * width;
        left = -missing;
      }
      for (int i = 0; i < kRows; ++i, k += kColumns) {
        const Row code = some >> (i * width) & mask;
        top |= code - quarter;
        store(k, code + offset);
      }
    }
    return any_bit(word) == 0 && (any_bit(top) & half_of(width)) != 0;
  }
};
