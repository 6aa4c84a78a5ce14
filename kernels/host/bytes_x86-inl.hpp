// Thirty-two bytes in one register, for AVX2 and AVX-512. native_scalar-inl.hpp has the meaning of each
// function.

using Bytes = __m256i;

MQ_INLINE Bytes load_bytes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
MQ_INLINE void store_bytes(std::byte* p, Bytes bytes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
}
MQ_INLINE std::uint32_t zero_bytes(Bytes bytes) {
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())));
}
// Byte i is 0xff if bit i is set, else 0.
MQ_INLINE Bytes bytes_of_bits(std::uint32_t bits) {
  const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), byte);
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}
MQ_INLINE Bytes keep_bytes(Bytes bytes, std::uint32_t bits) {
  return _mm256_and_si256(bytes, bytes_of_bits(bits));
}
MQ_INLINE Bytes less(Bytes bytes, std::uint8_t n) {
  return _mm256_sub_epi8(bytes, _mm256_set1_epi8(static_cast<char>(n)));
}
MQ_INLINE Bytes plus(Bytes a, Bytes b) { return _mm256_add_epi8(a, b); }
MQ_INLINE Bytes minus(Bytes a, Bytes b) { return _mm256_sub_epi8(a, b); }
MQ_INLINE Bytes third(Bytes bytes) {
  const __m256i share = _mm256_set1_epi16(0x5556);  // 2^16 / 3, rounded up: exact for numbers below 2^15
  const __m256i even = _mm256_mulhi_epu16(_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), share);
  const __m256i odd = _mm256_mulhi_epu16(_mm256_srli_epi16(bytes, 8), share);
  return _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
}
// Bytes from 32 words of at most 255, eight in each register.
MQ_INLINE Bytes bytes_of_words(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i mixed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
  return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
// Bytes with the highest bits of 32 words, eight in each register.
MQ_INLINE Bytes signs_of_words(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i mixed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
MQ_INLINE Bytes with_top_bits(Bytes bytes, Bytes top, int bit) {
  const __m256i moved = _mm256_srl_epi16(top, _mm_cvtsi32_si128(7 - bit));
  return _mm256_or_si256(bytes, _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(1 << bit))));
}
MQ_INLINE bool any_above(Bytes bytes, std::uint8_t mask, std::uint8_t limit) {
  const __m256i most = _mm256_set1_epi8(static_cast<char>(limit));
  const __m256i masked = _mm256_and_si256(bytes, _mm256_set1_epi8(static_cast<char>(mask)));
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(masked, most), most)) != -1;
}
template <int kBits>
MQ_INLINE void store_low(std::byte* p, Bytes bytes) {
  if constexpr (kBits == 1) {
    const int bits = _mm256_movemask_epi8(_mm256_slli_epi16(bytes, 7));
    std::memcpy(p, &bits, 4);
  } else {
    const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi8((1 << kBits) - 1));
    const __m256i placed = kBits == 4 ? _mm256_sllv_epi64(low, _mm256_setr_epi64x(0, 0, 4, 4))
                                      : _mm256_sllv_epi64(low, _mm256_setr_epi64x(0, 2, 4, 6));
    const __m128i half = _mm_or_si128(_mm256_castsi256_si128(placed), _mm256_extracti128_si256(placed, 1));
    if constexpr (kBits == 4)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), half);
    else
      _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_or_si128(half, _mm_unpackhi_epi64(half, half)));
  }
}
template <int kBits>
MQ_INLINE Bytes load_low(const std::byte* p) {
  const __m256i mask = _mm256_set1_epi8((1 << kBits) - 1);
  if constexpr (kBits == 1) {
    std::uint32_t bits;
    std::memcpy(&bits, p, 4);
    return _mm256_and_si256(bytes_of_bits(bits), mask);
  } else if constexpr (kBits == 4) {
    const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4)), mask);
  } else {
    long long eight;
    std::memcpy(&eight, p, 8);
    return _mm256_and_si256(_mm256_srlv_epi64(_mm256_set1_epi64x(eight), _mm256_setr_epi64x(0, 2, 4, 6)),
                            mask);
  }
}
template <int kBits>
MQ_INLINE Bytes shifted_down(Bytes bytes) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, kBits),
                          _mm256_set1_epi8(static_cast<char>(0xff >> kBits)));
}
// No bit of `high` leaves its byte.
MQ_INLINE Bytes joined(Bytes low, Bytes high, int shift) {
  return _mm256_or_si256(low, _mm256_sll_epi16(high, _mm_cvtsi32_si128(shift)));
}
