// One AVX-512 register of each element type. Included in namespace mq::kernels::avx512 by object.cpp.in.

#include "kernels/host/bytes_x86-inl.hpp"

inline constexpr bool kStreams = true;      // N::stream and, 16 bytes at a time, N::stream_parts
inline constexpr bool kSpecialises = true;  // a copy of a loop for parameters that are often used

template <class T>
struct Native;

template <>
struct Native<float> {
  using Reg = __m512;
  using Mask = __mmask16;
  static constexpr int kWidth = 16;
  static MQ_INLINE Reg load(const std::byte* p) { return _mm512_loadu_ps(p); }
  static MQ_INLINE void store(std::byte* p, Reg v) { _mm512_storeu_ps(p, v); }
  static MQ_INLINE void stream(std::byte* p, Reg v) { _mm512_stream_ps(reinterpret_cast<float*>(p), v); }
  static MQ_INLINE void stream_parts(std::byte* p, Reg v) {
    _mm_stream_ps(reinterpret_cast<float*>(p), _mm512_castps512_ps128(v));
    _mm_stream_ps(reinterpret_cast<float*>(p + 16), _mm512_extractf32x4_ps(v, 1));
    _mm_stream_ps(reinterpret_cast<float*>(p + 32), _mm512_extractf32x4_ps(v, 2));
    _mm_stream_ps(reinterpret_cast<float*>(p + 48), _mm512_extractf32x4_ps(v, 3));
  }
  static MQ_INLINE Reg all(float v) { return _mm512_set1_ps(v); }
  static MQ_INLINE Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static MQ_INLINE Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static MQ_INLINE Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static MQ_INLINE Reg least(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static MQ_INLINE Reg greatest(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  static MQ_INLINE Reg greatest_magnitude(Reg most, Reg v) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(most), _mm512_castps_si512(abs(v))));
  }
  static MQ_INLINE float greatest_of_register(Reg v) {
    return std::bit_cast<float>(_mm512_reduce_max_epi32(_mm512_castps_si512(v)));
  }
  static MQ_INLINE Bytes low_bytes(const Reg (&v)[2]) {
    return _mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_castps_si512(v[1])),
                            _mm512_cvtepi32_epi8(_mm512_castps_si512(v[0])));
  }
  static MQ_INLINE void of_signed_bytes(Bytes bytes, Reg (&v)[2]) {
    v[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes)));
    v[1] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(bytes, 1)));
  }
  static MQ_INLINE Reg bits_right(Reg v, int n) {
    return _mm512_castsi512_ps(_mm512_srl_epi32(_mm512_castps_si512(v), _mm_cvtsi32_si128(n)));
  }
  static MQ_INLINE Reg bits_left(Reg v, int n) {
    return _mm512_castsi512_ps(_mm512_sll_epi32(_mm512_castps_si512(v), _mm_cvtsi32_si128(n)));
  }
  static MQ_INLINE Reg bits_and(Reg a, Reg b) { return _mm512_and_ps(a, b); }
  static MQ_INLINE Reg bits_or(Reg a, Reg b) { return _mm512_or_ps(a, b); }
  static MQ_INLINE Reg bits_add(Reg a, Reg b) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static MQ_INLINE Reg bits_subtract(Reg a, Reg b) {
    return _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static MQ_INLINE Bytes sign_bytes(const Reg (&v)[2]) {
    const __mmask32 low = _mm512_movepi32_mask(_mm512_castps_si512(v[0])),
                    high = _mm512_movepi32_mask(_mm512_castps_si512(v[1]));
    return _mm256_movm_epi8(_mm512_kunpackw(high, low));
  }
  static MQ_INLINE void of_small_halves(Bytes codes, int exponent, int mantissa, Reg (&v)[2]) {
    const int spare = 5 - exponent;
    const __m512i top =
        _mm512_sll_epi16(_mm512_cvtepu8_epi16(codes), _mm_cvtsi32_si128(15 - exponent - mantissa));
    const __m512i half = _mm512_and_si512(_mm512_sra_epi16(top, _mm_cvtsi32_si128(spare)),
                                          _mm512_set1_epi16(static_cast<short>(0x8000 | 0x7fff >> spare)));
    v[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
    v[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
  }
  static MQ_INLINE Reg bits_least(Reg a, Reg b) {
    return _mm512_castsi512_ps(_mm512_min_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static MQ_INLINE Reg bits_greatest(Reg a, Reg b) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static MQ_INLINE std::uint32_t any_lane(Reg v) {
    return static_cast<std::uint32_t>(_mm512_reduce_or_epi32(_mm512_castps_si512(v)));
  }
  static MQ_INLINE void of_byte_bits(Bytes bytes, Reg (&v)[2]) {
    v[0] = _mm512_castsi512_ps(_mm512_cvtepu8_epi32(_mm256_castsi256_si128(bytes)));
    v[1] = _mm512_castsi512_ps(_mm512_cvtepu8_epi32(_mm256_extracti128_si256(bytes, 1)));
  }
  static MQ_INLINE Reg of_u16(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
  }
  static MQ_INLINE Reg of_u16_bits(const std::byte* p) {
    return _mm512_castsi512_ps(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
  }
  static MQ_INLINE std::uint32_t signs(Reg v) { return _mm512_movepi32_mask(_mm512_castps_si512(v)); }
  static MQ_INLINE Mask at_least(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
  static MQ_INLINE Mask finite(Reg v) {  // 0x99: quiet NaN, +Inf, -Inf, signalling NaN
    return static_cast<Mask>(~_mm512_fpclass_ps_mask(v, 0x99));
  }
  static MQ_INLINE Mask any_bit(Reg v) {
    return _mm512_test_epi32_mask(_mm512_castps_si512(v), _mm512_castps_si512(v));
  }
  static MQ_INLINE Mask ordered(Reg v) { return _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q); }
  static MQ_INLINE Reg abs(Reg v) { return _mm512_abs_ps(v); }
  static MQ_INLINE Reg select(Mask m, Reg set, Reg clear) { return _mm512_mask_blend_ps(m, clear, set); }
  static MQ_INLINE Reg add_where(Reg sum, Mask m, Reg v) { return _mm512_mask_add_ps(sum, m, sum, v); }
  static MQ_INLINE Reg add_where_not(Reg sum, Mask m, Reg v) {
    return add_where(sum, static_cast<Mask>(~m), v);
  }
  static MQ_INLINE std::uint32_t bits(Mask m) { return m; }
  static MQ_INLINE Mask from_bits(std::uint32_t b) { return static_cast<Mask>(b); }
  static MQ_INLINE Reg pick(std::uint32_t b, int first, Reg set, Reg clear) {
    return select(static_cast<Mask>(b >> first), set, clear);
  }
  // Moves the lanes whose bit is set to the front.
  static MQ_INLINE Reg compress(std::uint32_t b, Reg v) {
    return _mm512_maskz_compress_ps(static_cast<Mask>(b), v);
  }
  // Lanes whose bit is set take the first lanes of v in turn; the others are 0.
  static MQ_INLINE Reg expand(std::uint32_t b, Reg v) {
    return _mm512_maskz_expand_ps(static_cast<Mask>(b), v);
  }
  static MQ_INLINE Reg load_f16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static MQ_INLINE void store_f16(std::byte* p, Reg v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static MQ_INLINE Reg load_bf16(const std::byte* p) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return quiet(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16)));
  }
  static MQ_INLINE void store_bf16(std::byte* p, Reg v) {  // see bf16_from_bits
    const __m512i u = _mm512_castps_si512(quiet(v)), upper = _mm512_srli_epi32(u, 16);
    const __m512i half =
        _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(upper, _mm512_set1_epi32(1)));
    const __m512i codes = _mm512_mask_srli_epi32(upper, ordered(v), _mm512_add_epi32(u, half), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(codes));
  }
  static MQ_INLINE void store_upper(std::byte* p, Reg v) {
    const __m512i upper = _mm512_srli_epi32(_mm512_castps_si512(v), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(upper));
  }

 private:
  static MQ_INLINE Reg quiet(Reg v) {
    const __m512i u = _mm512_castps_si512(v);
    const Mask nan = static_cast<Mask>(~ordered(v));
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(u, nan, u, _mm512_set1_epi32(0x400000)));
  }
};

template <>
struct Native<double> {
  using Reg = __m512d;
  using Mask = __mmask8;
  static constexpr int kWidth = 8;
  static MQ_INLINE Reg load(const std::byte* p) { return _mm512_loadu_pd(p); }
  static MQ_INLINE void store(std::byte* p, Reg v) { _mm512_storeu_pd(p, v); }
  static MQ_INLINE void stream(std::byte* p, Reg v) { _mm512_stream_pd(reinterpret_cast<double*>(p), v); }
  static MQ_INLINE void stream_parts(std::byte* p, Reg v) {
    _mm_stream_pd(reinterpret_cast<double*>(p), _mm512_castpd512_pd128(v));
    _mm_stream_pd(reinterpret_cast<double*>(p + 16), _mm512_extractf64x2_pd(v, 1));
    _mm_stream_pd(reinterpret_cast<double*>(p + 32), _mm512_extractf64x2_pd(v, 2));
    _mm_stream_pd(reinterpret_cast<double*>(p + 48), _mm512_extractf64x2_pd(v, 3));
  }
  static MQ_INLINE Reg all(double v) { return _mm512_set1_pd(v); }
  static MQ_INLINE Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  static MQ_INLINE Reg sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  static MQ_INLINE Reg mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  static MQ_INLINE Reg least(Reg a, Reg b) { return _mm512_min_pd(a, b); }
  static MQ_INLINE Reg greatest(Reg a, Reg b) { return _mm512_max_pd(a, b); }
  static MQ_INLINE Reg greatest_magnitude(Reg most, Reg v) {
    return _mm512_castsi512_pd(_mm512_max_epi64(_mm512_castpd_si512(most), _mm512_castpd_si512(abs(v))));
  }
  static MQ_INLINE double greatest_of_register(Reg v) {
    return std::bit_cast<double>(_mm512_reduce_max_epi64(_mm512_castpd_si512(v)));
  }
  static MQ_INLINE Bytes low_bytes(const Reg (&v)[4]) {
    std::uint64_t eight[4];
    for (int i = 0; i < 4; ++i)
      eight[i] =
          static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(_mm512_castpd_si512(v[i]))));
    return load_bytes(reinterpret_cast<const std::byte*>(eight));
  }
  static MQ_INLINE void of_signed_bytes(Bytes bytes, Reg (&v)[4]) {
    const __m128i half[2]{_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    for (int i = 0; i < 4; ++i) {
      const __m128i eight = i % 2 == 0 ? half[i / 2] : _mm_srli_si128(half[i / 2], 8);
      v[i] = _mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(eight));
    }
  }
  static MQ_INLINE Reg bits_right(Reg v, int n) {
    return _mm512_castsi512_pd(_mm512_srl_epi64(_mm512_castpd_si512(v), _mm_cvtsi32_si128(n)));
  }
  static MQ_INLINE Reg bits_left(Reg v, int n) {
    return _mm512_castsi512_pd(_mm512_sll_epi64(_mm512_castpd_si512(v), _mm_cvtsi32_si128(n)));
  }
  static MQ_INLINE Reg bits_and(Reg a, Reg b) { return _mm512_and_pd(a, b); }
  static MQ_INLINE Reg bits_or(Reg a, Reg b) { return _mm512_or_pd(a, b); }
  static MQ_INLINE Reg bits_add(Reg a, Reg b) {
    return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b)));
  }
  static MQ_INLINE Reg bits_subtract(Reg a, Reg b) {
    return _mm512_castsi512_pd(_mm512_sub_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b)));
  }
  static MQ_INLINE Bytes sign_bytes(const Reg (&v)[4]) {
    std::uint32_t signs = 0;
    for (int i = 0; i < 4; ++i)
      signs |= std::uint32_t{_mm512_movepi64_mask(_mm512_castpd_si512(v[i]))} << 8 * i;
    return _mm256_movm_epi8(signs);
  }
  static MQ_INLINE Reg bits_least(Reg a, Reg b) {
    return _mm512_castsi512_pd(_mm512_min_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b)));
  }
  static MQ_INLINE Reg bits_greatest(Reg a, Reg b) {
    return _mm512_castsi512_pd(_mm512_max_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b)));
  }
  static MQ_INLINE std::uint64_t any_lane(Reg v) {
    return static_cast<std::uint64_t>(_mm512_reduce_or_epi64(_mm512_castpd_si512(v)));
  }
  static MQ_INLINE void of_byte_bits(Bytes bytes, Reg (&v)[4]) {
    const __m128i half[2]{_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    for (int i = 0; i < 4; ++i) {
      const __m128i eight = i % 2 == 0 ? half[i / 2] : _mm_srli_si128(half[i / 2], 8);
      v[i] = _mm512_castsi512_pd(_mm512_cvtepu8_epi64(eight));
    }
  }
  static MQ_INLINE Reg of_u16(const std::byte* p) {
    return _mm512_cvtepi32_pd(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static MQ_INLINE Reg of_u16_bits(const std::byte* p) {
    return _mm512_castsi512_pd(_mm512_cvtepu16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static MQ_INLINE std::uint32_t signs(Reg v) { return _mm512_movepi64_mask(_mm512_castpd_si512(v)); }
  static MQ_INLINE Mask at_least(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ); }
  static MQ_INLINE Mask finite(Reg v) {  // 0x99: quiet NaN, +Inf, -Inf, signalling NaN
    return static_cast<Mask>(~_mm512_fpclass_pd_mask(v, 0x99));
  }
  static MQ_INLINE Mask any_bit(Reg v) {
    return _mm512_test_epi64_mask(_mm512_castpd_si512(v), _mm512_castpd_si512(v));
  }
  static MQ_INLINE Mask ordered(Reg v) { return _mm512_cmp_pd_mask(v, v, _CMP_ORD_Q); }
  static MQ_INLINE Reg abs(Reg v) { return _mm512_abs_pd(v); }
  static MQ_INLINE Reg select(Mask m, Reg set, Reg clear) { return _mm512_mask_blend_pd(m, clear, set); }
  static MQ_INLINE Reg add_where(Reg sum, Mask m, Reg v) { return _mm512_mask_add_pd(sum, m, sum, v); }
  static MQ_INLINE Reg add_where_not(Reg sum, Mask m, Reg v) {
    return add_where(sum, static_cast<Mask>(~m), v);
  }
  static MQ_INLINE std::uint32_t bits(Mask m) { return m; }
  static MQ_INLINE Mask from_bits(std::uint32_t b) { return static_cast<Mask>(b); }
  static MQ_INLINE Reg pick(std::uint32_t b, int first, Reg set, Reg clear) {
    return select(static_cast<Mask>(b >> first), set, clear);
  }
  static MQ_INLINE Reg compress(std::uint32_t b, Reg v) {
    return _mm512_maskz_compress_pd(static_cast<Mask>(b), v);
  }
  static MQ_INLINE Reg expand(std::uint32_t b, Reg v) {
    return _mm512_maskz_expand_pd(static_cast<Mask>(b), v);
  }
};

// Appends base + i for each bit i that is set, ascending, to a list with room for 32 more.
MQ_INLINE void append_positions(std::uint32_t* list, std::uint32_t bits, std::uint32_t base) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int half = 0; half < 2; ++half) {
    const __m512i position = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(base)), lane);
    const auto mask = static_cast<__mmask16>(bits);
    // Compressing into a register, because compressing stores are slow on some processors.
    _mm512_storeu_si512(list, _mm512_maskz_compress_epi32(mask, position));
    list += std::popcount(static_cast<std::uint32_t>(mask));
    bits >>= 16;
    base += 16;
  }
}

// Appends at[i] * 2 + bit i of `above` for each bit i of `take`, ascending, to a list with room for 32 more.
// The list may be `at` or begin before it.
MQ_INLINE void append_entries(std::uint32_t* list, std::uint32_t take, std::uint32_t above,
                              const std::uint32_t* at) {
  for (int half = 0; half < 2; ++half) {
    const __m512i position = _mm512_loadu_si512(at + 16 * half);
    const __m512i below = _mm512_add_epi32(position, position);
    const __m512i entry =
        _mm512_mask_add_epi32(below, static_cast<__mmask16>(above), below, _mm512_set1_epi32(1));
    const auto mask = static_cast<__mmask16>(take);
    _mm512_storeu_si512(list, _mm512_maskz_compress_epi32(mask, entry));
    list += std::popcount(static_cast<std::uint32_t>(mask));
    take >>= 16;
    above >>= 16;
  }
}

// Stores the top bits of 64 bytes in a word and sets the bytes to 0. The bytes start at a 64-byte boundary.
MQ_INLINE void take_top_bits(std::byte* bytes, std::byte* word) {
  const std::uint64_t bits = _mm512_movepi8_mask(_mm512_load_si512(bytes));
  std::memcpy(word, &bits, sizeof bits);
  _mm512_store_si512(bytes, _mm512_setzero_si512());
}

// Fills a tile of random bits (philox.hpp) from the draw with number `first` on, and upper half rounds.upper.
// A 64-bit lane holds one word of a draw; its upper half is arbitrary. Even draws are in one register and odd
// draws in another, which the last step joins. Not inlined: the compiler would keep the keys of all rounds in
// registers that it does not have.
inline __attribute__((noinline)) void random_tile(std::byte* tile, std::uint32_t first,
                                                  const RandomRounds& rounds) {
  const __m512i multiplier0 = _mm512_set1_epi64(philox::kMultiplier0);
  const __m512i multiplier1 = _mm512_set1_epi64(philox::kMultiplier1);
  const auto all = [](std::uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); };
  __m512i c[2][4];
  for (std::uint32_t odd = 0; odd < 2; ++odd) {  // the first two rounds
    const __m512i number = _mm512_add_epi32(all(first + odd), _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14));
    const __m512i a = _mm512_mul_epu32(number, multiplier0);
    const __m512i b =
        _mm512_mul_epu32(_mm512_xor_si512(_mm512_srli_epi64(a, 32), all(rounds.first2)), multiplier1);
    c[odd][0] = _mm512_xor_si512(_mm512_srli_epi64(b, 32), all(rounds.second0));
    c[odd][1] = b;
    c[odd][2] = _mm512_xor_si512(a, all(rounds.second2));
    c[odd][3] = all(rounds.second3);
  }
  for (int round = 2; round < philox::kRounds; ++round) {
    const __m512i key0 = all(rounds.key[round][0]), key1 = all(rounds.key[round][1]);
    for (auto& w : c) {
      const __m512i a = _mm512_mul_epu32(w[0], multiplier0), b = _mm512_mul_epu32(w[2], multiplier1);
      w[0] =
          _mm512_ternarylogic_epi64(_mm512_srli_epi64(b, 32), w[1], key0, 0x96);  // exclusive or of all three
      w[2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(a, 32), w[3], key1, 0x96);
      w[1] = b;
      w[3] = a;
    }
  }
  for (int i = 0; i < 4; ++i)
    _mm512_store_si512(tile + 64 * i,
                       _mm512_mask_blend_epi32(0xaaaa, c[0][i], _mm512_slli_epi64(c[1][i], 32)));
}
