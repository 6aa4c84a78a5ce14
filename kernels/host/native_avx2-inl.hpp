// One AVX2 register of each element type. Included in namespace mq::kernels::avx2 by object.cpp.in.

#include "kernels/host/bytes_x86-inl.hpp"

inline constexpr bool kStreams = true;      // N::stream and, 16 bytes at a time, N::stream_parts
inline constexpr bool kSpecialises = true;  // a copy of a loop for parameters that are often used

template <class T>
struct Native;

// For each mask of 8 lanes: the lane of a packed register from which each lane takes its value. That is the
// number of bits set below the lane's own bit. 2 KiB.
struct ExpandTable {
  std::uint8_t lane[256][8];
};
constexpr ExpandTable make_expand_table() {
  ExpandTable table{};
  for (unsigned mask = 0; mask < 256; ++mask)
    for (unsigned i = 0; i < 8; ++i)
      table.lane[mask][i] = static_cast<std::uint8_t>(std::popcount(mask & ((1u << i) - 1)));
  return table;
}
alignas(64) inline constexpr ExpandTable kExpandTable = make_expand_table();

// Small floats in words of 16 bits as halves whose exponents and mantissas have more bits, all 0.
MQ_INLINE __m256i halves_of_small(__m256i codes, int exponent, int mantissa) {
  const int spare = 5 - exponent;
  const __m256i top = _mm256_sll_epi16(codes, _mm_cvtsi32_si128(15 - exponent - mantissa));
  return _mm256_and_si256(_mm256_sra_epi16(top, _mm_cvtsi32_si128(spare)),
                          _mm256_set1_epi16(static_cast<short>(0x8000 | 0x7fff >> spare)));
}
// The bits that are set in any of four words.
MQ_INLINE std::uint64_t any_word(__m256i v) {
  const __m128i half = _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(half) | _mm_extract_epi64(half, 1));
}

template <>
struct Native<float> {
  using Reg = __m256;
  using Mask = __m256;
  static constexpr int kWidth = 8;
  static MQ_INLINE Reg load(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static MQ_INLINE void store(std::byte* p, Reg v) { _mm256_storeu_ps(reinterpret_cast<float*>(p), v); }
  static MQ_INLINE void stream(std::byte* p, Reg v) { _mm256_stream_ps(reinterpret_cast<float*>(p), v); }
  static MQ_INLINE void stream_parts(std::byte* p, Reg v) {
    _mm_stream_ps(reinterpret_cast<float*>(p), _mm256_castps256_ps128(v));
    _mm_stream_ps(reinterpret_cast<float*>(p + 16), _mm256_extractf128_ps(v, 1));
  }
  static MQ_INLINE Reg all(float v) { return _mm256_set1_ps(v); }
  static MQ_INLINE Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static MQ_INLINE Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static MQ_INLINE Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static MQ_INLINE Reg least(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static MQ_INLINE Reg greatest(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static MQ_INLINE Reg greatest_magnitude(Reg most, Reg v) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(most), _mm256_castps_si256(abs(v))));
  }
  // The greatest of lanes that are not negative, as integers.
  static MQ_INLINE float greatest_of_register(Reg v) {
    const __m256i u = _mm256_castps_si256(v);
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return std::bit_cast<float>(_mm_cvtsi128_si32(m));
  }
  static MQ_INLINE Bytes low_bytes(const Reg (&v)[4]) {
    const __m256i low = _mm256_set1_epi32(0xff);
    __m256i word[4];
    for (int i = 0; i < 4; ++i) word[i] = _mm256_and_si256(_mm256_castps_si256(v[i]), low);
    return bytes_of_words(word[0], word[1], word[2], word[3]);
  }
  static MQ_INLINE void of_signed_bytes(Bytes bytes, Reg (&v)[4]) {
    const __m128i half[2]{_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    for (int i = 0; i < 4; ++i) {
      const __m128i eight = i % 2 == 0 ? half[i / 2] : _mm_srli_si128(half[i / 2], 8);
      v[i] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
    }
  }
  static MQ_INLINE Reg bits_right(Reg v, int n) {
    return _mm256_castsi256_ps(_mm256_srl_epi32(_mm256_castps_si256(v), _mm_cvtsi32_si128(n)));
  }
  static MQ_INLINE Reg bits_left(Reg v, int n) {
    return _mm256_castsi256_ps(_mm256_sll_epi32(_mm256_castps_si256(v), _mm_cvtsi32_si128(n)));
  }
  static MQ_INLINE Reg bits_and(Reg a, Reg b) { return _mm256_and_ps(a, b); }
  static MQ_INLINE Reg bits_or(Reg a, Reg b) { return _mm256_or_ps(a, b); }
  static MQ_INLINE Reg bits_add(Reg a, Reg b) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static MQ_INLINE Reg bits_subtract(Reg a, Reg b) {
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static MQ_INLINE Bytes sign_bytes(const Reg (&v)[4]) {
    __m256i word[4];
    for (int i = 0; i < 4; ++i) word[i] = _mm256_castps_si256(v[i]);
    return signs_of_words(word[0], word[1], word[2], word[3]);
  }
  static MQ_INLINE void of_small_halves(Bytes codes, int exponent, int mantissa, Reg (&v)[4]) {
    for (int i = 0; i < 2; ++i) {
      const __m128i sixteen = i == 0 ? _mm256_castsi256_si128(codes) : _mm256_extracti128_si256(codes, 1);
      const __m256i half = halves_of_small(_mm256_cvtepu8_epi16(sixteen), exponent, mantissa);
      v[2 * i] = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
      v[2 * i + 1] = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
    }
  }
  static MQ_INLINE Reg bits_least(Reg a, Reg b) {
    return _mm256_castsi256_ps(_mm256_min_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static MQ_INLINE Reg bits_greatest(Reg a, Reg b) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static MQ_INLINE std::uint32_t any_lane(Reg v) {
    const std::uint64_t any = any_word(_mm256_castps_si256(v));
    return static_cast<std::uint32_t>(any | any >> 32);
  }
  static MQ_INLINE void of_byte_bits(Bytes bytes, Reg (&v)[4]) {
    const __m128i half[2]{_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    for (int i = 0; i < 4; ++i) {
      const __m128i eight = i % 2 == 0 ? half[i / 2] : _mm_srli_si128(half[i / 2], 8);
      v[i] = _mm256_castsi256_ps(_mm256_cvtepu8_epi32(eight));
    }
  }
  static MQ_INLINE Reg of_u16(const std::byte* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static MQ_INLINE Reg of_u16_bits(const std::byte* p) {
    return _mm256_castsi256_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static MQ_INLINE std::uint32_t signs(Reg v) { return bits(v); }
  static MQ_INLINE Mask at_least(Reg a, Reg b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
  static MQ_INLINE Mask finite(Reg v) {
    const Reg magnitude = _mm256_andnot_ps(all(-0.0F), v);
    return _mm256_cmp_ps(magnitude, all(std::numeric_limits<float>::infinity()), _CMP_LT_OQ);
  }
  static MQ_INLINE Mask any_bit(Reg v) {
    const __m256i zero = _mm256_setzero_si256(), none = _mm256_cmpeq_epi32(_mm256_castps_si256(v), zero);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(none, zero));
  }
  static MQ_INLINE Mask ordered(Reg v) { return _mm256_cmp_ps(v, v, _CMP_ORD_Q); }
  static MQ_INLINE Reg abs(Reg v) { return _mm256_andnot_ps(all(-0.0F), v); }
  static MQ_INLINE Reg select(Mask m, Reg set, Reg clear) { return _mm256_blendv_ps(clear, set, m); }
  static MQ_INLINE Reg add_where(Reg sum, Mask m, Reg v) { return add(sum, _mm256_and_ps(m, v)); }
  static MQ_INLINE Reg add_where_not(Reg sum, Mask m, Reg v) { return add(sum, _mm256_andnot_ps(m, v)); }
  static MQ_INLINE std::uint32_t bits(Mask m) { return static_cast<std::uint32_t>(_mm256_movemask_ps(m)); }
  static MQ_INLINE Mask from_bits(std::uint32_t b) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i hit = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(b)), lane);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(hit, lane));
  }
  static MQ_INLINE Reg pick(std::uint32_t b, int first, Reg set, Reg clear) {
    const __m256i position =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
    const __m256i index = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(b)), position);
    // The instruction uses the lower two bits of each index. The second bit belongs to the next lane; both
    // values of it select the same element.
    return _mm256_permutevar_ps(_mm256_unpacklo_ps(clear, set), index);
  }
  // Lanes whose bit is set take the first lanes of v in turn; the others are 0.
  static MQ_INLINE Reg expand(std::uint32_t b, Reg v) {
    const auto* const lanes = reinterpret_cast<const __m128i*>(kExpandTable.lane[b & 0xff]);
    const __m256i from = _mm256_cvtepu8_epi32(_mm_loadl_epi64(lanes));
    return _mm256_and_ps(_mm256_permutevar8x32_ps(v, from), from_bits(b));
  }
  static MQ_INLINE Reg load_f16(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static MQ_INLINE void store_f16(std::byte* p, Reg v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static MQ_INLINE Reg load_bf16(const std::byte* p) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return quiet(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16)));
  }
  static MQ_INLINE void store_bf16(std::byte* p, Reg v) {  // see bf16_from_bits
    const __m256i u = _mm256_castps_si256(quiet(v)), upper = _mm256_srli_epi32(u, 16);
    const __m256i half =
        _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(upper, _mm256_set1_epi32(1)));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, half), 16);
    const __m256i codes = _mm256_blendv_epi8(upper, rounded, _mm256_castps_si256(ordered(v)));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(codes, codes), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  static MQ_INLINE void store_upper(std::byte* p, Reg v) {
    const __m256i upper = _mm256_srli_epi32(_mm256_castps_si256(v), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }

 private:
  static MQ_INLINE Reg quiet(Reg v) {
    return _mm256_or_ps(v, _mm256_andnot_ps(ordered(v), _mm256_castsi256_ps(_mm256_set1_epi32(0x400000))));
  }
};

template <>
struct Native<double> {
  using Reg = __m256d;
  using Mask = __m256d;
  static constexpr int kWidth = 4;
  static MQ_INLINE Reg load(const std::byte* p) {
    return _mm256_loadu_pd(reinterpret_cast<const double*>(p));
  }
  static MQ_INLINE void store(std::byte* p, Reg v) { _mm256_storeu_pd(reinterpret_cast<double*>(p), v); }
  static MQ_INLINE void stream(std::byte* p, Reg v) { _mm256_stream_pd(reinterpret_cast<double*>(p), v); }
  static MQ_INLINE void stream_parts(std::byte* p, Reg v) {
    _mm_stream_pd(reinterpret_cast<double*>(p), _mm256_castpd256_pd128(v));
    _mm_stream_pd(reinterpret_cast<double*>(p + 16), _mm256_extractf128_pd(v, 1));
  }
  static MQ_INLINE Reg all(double v) { return _mm256_set1_pd(v); }
  static MQ_INLINE Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  static MQ_INLINE Reg sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  static MQ_INLINE Reg mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  static MQ_INLINE Reg least(Reg a, Reg b) { return _mm256_min_pd(a, b); }
  static MQ_INLINE Reg greatest(Reg a, Reg b) { return _mm256_max_pd(a, b); }
  static MQ_INLINE Reg greatest_magnitude(Reg most, Reg v) {
    const __m256i a = _mm256_castpd_si256(most), b = _mm256_castpd_si256(abs(v));
    return _mm256_castsi256_pd(_mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a)));
  }
  static MQ_INLINE double greatest_of_register(Reg v) {
    std::int64_t lane[kWidth];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lane), _mm256_castpd_si256(v));
    return std::bit_cast<double>(std::max(std::max(lane[0], lane[1]), std::max(lane[2], lane[3])));
  }
  static MQ_INLINE Bytes low_bytes(const Reg (&v)[8]) {
    const __m256i low = _mm256_set1_epi32(0xff);
    __m256i word[4];
    for (int i = 0; i < 4; ++i) {
      const __m256 a = _mm256_castpd_ps(v[2 * i]), b = _mm256_castpd_ps(v[2 * i + 1]);
      const __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
      word[i] = _mm256_and_si256(_mm256_permute4x64_epi64(even, 0xd8), low);
    }
    return bytes_of_words(word[0], word[1], word[2], word[3]);
  }
  static MQ_INLINE void of_signed_bytes(Bytes bytes, Reg (&v)[8]) {
    const __m128i half[2]{_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    for (int i = 0; i < 8; ++i) {
      __m128i four = half[i / 4];
      if (i % 4 == 1) four = _mm_srli_si128(four, 4);
      if (i % 4 == 2) four = _mm_srli_si128(four, 8);
      if (i % 4 == 3) four = _mm_srli_si128(four, 12);
      v[i] = _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(four));
    }
  }
  static MQ_INLINE Reg bits_right(Reg v, int n) {
    return _mm256_castsi256_pd(_mm256_srl_epi64(_mm256_castpd_si256(v), _mm_cvtsi32_si128(n)));
  }
  static MQ_INLINE Reg bits_left(Reg v, int n) {
    return _mm256_castsi256_pd(_mm256_sll_epi64(_mm256_castpd_si256(v), _mm_cvtsi32_si128(n)));
  }
  static MQ_INLINE Reg bits_and(Reg a, Reg b) { return _mm256_and_pd(a, b); }
  static MQ_INLINE Reg bits_or(Reg a, Reg b) { return _mm256_or_pd(a, b); }
  static MQ_INLINE Reg bits_add(Reg a, Reg b) {
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b)));
  }
  static MQ_INLINE Reg bits_subtract(Reg a, Reg b) {
    return _mm256_castsi256_pd(_mm256_sub_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b)));
  }
  static MQ_INLINE Bytes sign_bytes(const Reg (&v)[8]) {
    __m256i word[4];
    for (int i = 0; i < 4; ++i) {
      const __m256 a = _mm256_castpd_ps(v[2 * i]), b = _mm256_castpd_ps(v[2 * i + 1]);
      word[i] = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
    }
    return signs_of_words(word[0], word[1], word[2], word[3]);
  }
  static MQ_INLINE Reg bits_least(Reg a, Reg b) { return _mm256_blendv_pd(a, b, above(a, b)); }
  static MQ_INLINE Reg bits_greatest(Reg a, Reg b) { return _mm256_blendv_pd(b, a, above(a, b)); }
  static MQ_INLINE Reg above(Reg a, Reg b) {
    return _mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b)));
  }
  static MQ_INLINE std::uint64_t any_lane(Reg v) { return any_word(_mm256_castpd_si256(v)); }
  static MQ_INLINE void of_byte_bits(Bytes bytes, Reg (&v)[8]) {
    alignas(32) std::byte byte[kLanes];
    store_bytes(byte, bytes);
    for (int i = 0; i < 8; ++i) {
      int four;
      std::memcpy(&four, byte + 4 * i, 4);
      v[i] = _mm256_castsi256_pd(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four)));
    }
  }
  static MQ_INLINE Reg of_u16(const std::byte* p) {
    return _mm256_cvtepi32_pd(_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static MQ_INLINE Reg of_u16_bits(const std::byte* p) {
    return _mm256_castsi256_pd(_mm256_cvtepu16_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static MQ_INLINE std::uint32_t signs(Reg v) { return bits(v); }
  static MQ_INLINE Mask at_least(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_GE_OQ); }
  static MQ_INLINE Mask finite(Reg v) {
    const Reg magnitude = _mm256_andnot_pd(all(-0.0), v);
    return _mm256_cmp_pd(magnitude, all(std::numeric_limits<double>::infinity()), _CMP_LT_OQ);
  }
  static MQ_INLINE Mask any_bit(Reg v) {
    const __m256i zero = _mm256_setzero_si256(), none = _mm256_cmpeq_epi64(_mm256_castpd_si256(v), zero);
    return _mm256_castsi256_pd(_mm256_cmpeq_epi64(none, zero));
  }
  static MQ_INLINE Mask ordered(Reg v) { return _mm256_cmp_pd(v, v, _CMP_ORD_Q); }
  static MQ_INLINE Reg abs(Reg v) { return _mm256_andnot_pd(all(-0.0), v); }
  static MQ_INLINE Reg select(Mask m, Reg set, Reg clear) { return _mm256_blendv_pd(clear, set, m); }
  static MQ_INLINE Reg add_where(Reg sum, Mask m, Reg v) { return add(sum, _mm256_and_pd(m, v)); }
  static MQ_INLINE Reg add_where_not(Reg sum, Mask m, Reg v) { return add(sum, _mm256_andnot_pd(m, v)); }
  static MQ_INLINE std::uint32_t bits(Mask m) { return static_cast<std::uint32_t>(_mm256_movemask_pd(m)); }
  static MQ_INLINE Mask from_bits(std::uint32_t b) {
    const __m256i lane = _mm256_setr_epi64x(1, 2, 4, 8);
    const __m256i hit = _mm256_and_si256(_mm256_set1_epi64x(static_cast<long long>(b)), lane);
    return _mm256_castsi256_pd(_mm256_cmpeq_epi64(hit, lane));
  }
  static MQ_INLINE Reg pick(std::uint32_t b, int first, Reg set, Reg clear) {
    const __m256i position = _mm256_add_epi64(_mm256_setr_epi64x(0, 1, 2, 3), _mm256_set1_epi64x(first));
    // permutevar uses bit 1 of each index.
    const __m256i all_bits = _mm256_set1_epi64x(static_cast<long long>(b) << 1);
    return _mm256_permutevar_pd(_mm256_unpacklo_pd(clear, set), _mm256_srlv_epi64(all_bits, position));
  }
  static MQ_INLINE Reg expand(std::uint32_t b, Reg v) {
    // Lane i of doubles is lanes 2 i and 2 i + 1 of floats.
    const auto* const lanes = reinterpret_cast<const __m128i*>(kExpandTable.lane[b & 0xf]);
    const __m256i from = _mm256_cvtepu8_epi64(_mm_loadl_epi64(lanes)), low = _mm256_add_epi64(from, from);
    const __m256i halves =
        _mm256_or_si256(low, _mm256_slli_epi64(_mm256_or_si256(low, _mm256_set1_epi64x(1)), 32));
    const __m256 packed = _mm256_permutevar8x32_ps(_mm256_castpd_ps(v), halves);
    return _mm256_and_pd(_mm256_castps_pd(packed), from_bits(b));
  }
};

// Appends base + i for each bit i that is set, ascending, to a list with room for 32 more. Most groups of a
// sparse block have few bits set, so four are written without a branch.
MQ_INLINE void append_positions(std::uint32_t* list, std::uint32_t bits, std::uint32_t base) {
  for (int i = 0; i < 4; ++i) {
    list[i] = base + static_cast<std::uint32_t>(std::countr_zero(bits | 1u << 31));
    bits &= bits - 1;
  }
  for (list += 4; bits != 0; bits &= bits - 1)
    *list++ = base + static_cast<std::uint32_t>(std::countr_zero(bits));
}

// Stores the top bits of 64 bytes in a word and sets the bytes to 0. The bytes start at a 64-byte boundary.
MQ_INLINE void take_top_bits(std::byte* bytes, std::byte* word) {
  for (int half = 0; half < 2; ++half, bytes += 32, word += 4) {
    auto* const at = reinterpret_cast<__m256i*>(bytes);
    const int bits = _mm256_movemask_epi8(_mm256_load_si256(at));
    std::memcpy(word, &bits, sizeof bits);
    _mm256_store_si256(at, _mm256_setzero_si256());
  }
}

// Fills a tile of random bits (philox.hpp) from the draw with number `first` on, and upper half rounds.upper.
// A 64-bit lane holds one word of a draw; its upper half is arbitrary. Even draws are in one register and odd
// draws in another, which the last step joins. Not inlined: the compiler would keep the keys of all rounds in
// registers that it does not have.
inline __attribute__((noinline)) void random_tile(std::byte* tile, std::uint32_t first,
                                                  const RandomRounds& rounds) {
  const __m256i multiplier0 = _mm256_set1_epi64x(philox::kMultiplier0);
  const __m256i multiplier1 = _mm256_set1_epi64x(philox::kMultiplier1);
  const auto all = [](std::uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); };
  for (std::uint32_t half = 0; half < 2; ++half) {
    __m256i c[2][4];
    for (std::uint32_t odd = 0; odd < 2; ++odd) {  // the first two rounds
      const __m256i number = _mm256_add_epi32(all(first + 8 * half + odd), _mm256_setr_epi64x(0, 2, 4, 6));
      const __m256i a = _mm256_mul_epu32(number, multiplier0);
      const __m256i b =
          _mm256_mul_epu32(_mm256_xor_si256(_mm256_srli_epi64(a, 32), all(rounds.first2)), multiplier1);
      c[odd][0] = _mm256_xor_si256(_mm256_srli_epi64(b, 32), all(rounds.second0));
      c[odd][1] = b;
      c[odd][2] = _mm256_xor_si256(a, all(rounds.second2));
      c[odd][3] = all(rounds.second3);
    }
    for (int round = 2; round < philox::kRounds; ++round) {
      const __m256i key0 = all(rounds.key[round][0]), key1 = all(rounds.key[round][1]);
      for (auto& w : c) {
        const __m256i a = _mm256_mul_epu32(w[0], multiplier0), b = _mm256_mul_epu32(w[2], multiplier1);
        w[0] = _mm256_xor_si256(_mm256_srli_epi64(b, 32), _mm256_xor_si256(w[1], key0));
        w[2] = _mm256_xor_si256(_mm256_srli_epi64(a, 32), _mm256_xor_si256(w[3], key1));
        w[1] = b;
        w[3] = a;
      }
    }
    for (int i = 0; i < 4; ++i) {
      const __m256i joined = _mm256_blend_epi32(c[0][i], _mm256_slli_epi64(c[1][i], 32), 0xaa);
      _mm256_store_si256(reinterpret_cast<__m256i*>(tile + 64 * i + 32 * half), joined);
    }
  }
}
