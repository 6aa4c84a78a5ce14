// One register of each element type, for any processor. It is the specification against which the other
// instruction sets are tested. Included in namespace mq::kernels::scalar by object.cpp.in.

inline constexpr bool kStreams = false;  // ordinary stores: scalar code is too slow to saturate the memory
inline constexpr bool kSpecialises =
    false;  // one copy of a loop for all parameters, because it takes long to compile

// Thirty-two bytes, and how codes of fewer bits are packed: see packed-inl.hpp.
struct Bytes {
  std::uint8_t lane[kLanes];
};
MQ_INLINE Bytes load_bytes(const std::byte* p) {
  Bytes bytes;
  std::memcpy(bytes.lane, p, kLanes);
  return bytes;
}
MQ_INLINE void store_bytes(std::byte* p, const Bytes& bytes) { std::memcpy(p, bytes.lane, kLanes); }
// Bit i is set if byte i is 0.
MQ_INLINE std::uint32_t zero_bytes(const Bytes& bytes) {
  std::uint32_t zero = 0;
  for (int i = 0; i < kLanes; ++i) zero |= std::uint32_t{bytes.lane[i] == 0} << i;
  return zero;
}
// The bytes whose bit is set; the others become 0.
MQ_INLINE Bytes keep_bytes(Bytes bytes, std::uint32_t bits) {
  for (int i = 0; i < kLanes; ++i) bytes.lane[i] = (bits >> i & 1) != 0 ? bytes.lane[i] : 0;
  return bytes;
}
// Each byte less n, modulo 256.
MQ_INLINE Bytes less(Bytes bytes, std::uint8_t n) {
  for (auto& byte : bytes.lane) byte = static_cast<std::uint8_t>(byte - n);
  return bytes;
}
// Sums and differences, modulo 256, and a third of each byte, rounded down.
MQ_INLINE Bytes plus(Bytes a, const Bytes& b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] = static_cast<std::uint8_t>(a.lane[i] + b.lane[i]);
  return a;
}
MQ_INLINE Bytes minus(Bytes a, const Bytes& b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] = static_cast<std::uint8_t>(a.lane[i] - b.lane[i]);
  return a;
}
MQ_INLINE Bytes third(Bytes bytes) {
  for (auto& byte : bytes.lane) byte = static_cast<std::uint8_t>(byte / 3);
  return bytes;
}
// The bytes, whose bit `bit` and those above are 0, with this bit from the highest bits of `top`.
MQ_INLINE Bytes with_top_bits(Bytes bytes, const Bytes& top, int bit) {
  for (int i = 0; i < kLanes; ++i)
    bytes.lane[i] = static_cast<std::uint8_t>(bytes.lane[i] | top.lane[i] >> 7 << bit);
  return bytes;
}
// Whether a byte, after & mask, is greater than the limit.
MQ_INLINE bool any_above(const Bytes& bytes, std::uint8_t mask, std::uint8_t limit) {
  bool above = false;
  for (const std::uint8_t lane : bytes.lane) above |= (lane & mask) > limit;
  return above;
}
// The lower `kBits` bits (4, 2 or 1) of all bytes in 4 kBits bytes, and back.
template <int kBits>
MQ_INLINE void store_low(std::byte* p, const Bytes& bytes) {
  if constexpr (kBits == 1) {
    for (int i = 0; i < 4; ++i) {
      unsigned eight = 0;
      for (int j = 0; j < 8; ++j) eight |= (bytes.lane[8 * i + j] & 1u) << j;
      p[i] = static_cast<std::byte>(eight);
    }
  } else {
    constexpr int kBytes = 4 * kBits;
    for (int i = 0; i < kBytes; ++i) {
      unsigned packed = 0;
      for (int j = 0; j < 8 / kBits; ++j)
        packed |= (bytes.lane[i + j * kBytes] & ((1u << kBits) - 1)) << (j * kBits);
      p[i] = static_cast<std::byte>(packed);
    }
  }
}
template <int kBits>
MQ_INLINE Bytes load_low(const std::byte* p) {
  constexpr unsigned kMask = (1u << kBits) - 1;
  Bytes bytes;
  for (int i = 0; i < kLanes; ++i) {
    const int at = kBits == 1 ? i / 8 : i % (4 * kBits), shift = kBits == 1 ? i % 8 : i / (4 * kBits) * kBits;
    bytes.lane[i] = static_cast<std::uint8_t>(std::to_integer<unsigned>(p[at]) >> shift & kMask);
  }
  return bytes;
}
// All bytes shifted by kBits, upwards or downwards, and the union of two.
template <int kBits>
MQ_INLINE Bytes shifted_down(Bytes bytes) {
  for (auto& lane : bytes.lane) lane = static_cast<std::uint8_t>(lane >> kBits);
  return bytes;
}
MQ_INLINE Bytes joined(Bytes low, const Bytes& high, int shift) {
  for (int i = 0; i < kLanes; ++i)
    low.lane[i] = static_cast<std::uint8_t>(low.lane[i] | high.lane[i] << shift);
  return low;
}

template <class T>
struct Native {
  using Reg = T;
  // 0 or -1, as wide as T. So there are no branches, which random signs would mispredict, and compilers
  // vectorise.
  using Mask = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Bits = std::make_unsigned_t<Mask>;
  static constexpr int kWidth = 1;
  static MQ_INLINE Reg load(const std::byte* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static MQ_INLINE void store(std::byte* p, Reg v) { std::memcpy(p, &v, sizeof v); }
  static MQ_INLINE Reg all(T v) { return v; }
  static MQ_INLINE Reg add(Reg a, Reg b) { return a + b; }
  static MQ_INLINE Reg sub(Reg a, Reg b) { return a - b; }
  static MQ_INLINE Reg mul(Reg a, Reg b) { return a * b; }
  // Of two numbers of which neither is NaN.
  static MQ_INLINE Reg least(Reg a, Reg b) { return a < b ? a : b; }
  static MQ_INLINE Reg greatest(Reg a, Reg b) { return a > b ? a : b; }
  // The greater of `most`, which is not negative, and |v|. NaN and infinities are greater than any number.
  static MQ_INLINE Reg greatest_magnitude(Reg most, Reg v) {
    const auto a = std::bit_cast<Mask>(most), b = std::bit_cast<Mask>(abs(v));
    return std::bit_cast<Reg>(b > a ? b : a);
  }
  static MQ_INLINE T greatest_of_register(Reg v) { return v; }
  // The lowest byte of the bit pattern of each of 32 lanes, and lanes from bytes: 0 to 255.
  static MQ_INLINE Bytes low_bytes(const Reg (&v)[kLanes]) {
    Bytes bytes;
    for (int i = 0; i < kLanes; ++i) bytes.lane[i] = static_cast<std::uint8_t>(std::bit_cast<Mask>(v[i]));
    return bytes;
  }
  static MQ_INLINE void of_signed_bytes(const Bytes& bytes, Reg (&v)[kLanes]) {
    for (int i = 0; i < kLanes; ++i) v[i] = static_cast<Reg>(static_cast<std::int8_t>(bytes.lane[i]));
  }
  // Bit patterns: shifts, and, or, and the sum and the difference of integers.
  static MQ_INLINE Reg bits_right(Reg v, int n) { return std::bit_cast<Reg>(std::bit_cast<Bits>(v) >> n); }
  static MQ_INLINE Reg bits_left(Reg v, int n) { return std::bit_cast<Reg>(std::bit_cast<Bits>(v) << n); }
  static MQ_INLINE Reg bits_and(Reg a, Reg b) {
    return std::bit_cast<Reg>(std::bit_cast<Bits>(a) & std::bit_cast<Bits>(b));
  }
  static MQ_INLINE Reg bits_or(Reg a, Reg b) {
    return std::bit_cast<Reg>(std::bit_cast<Bits>(a) | std::bit_cast<Bits>(b));
  }
  static MQ_INLINE Reg bits_add(Reg a, Reg b) {
    return std::bit_cast<Reg>(std::bit_cast<Bits>(a) + std::bit_cast<Bits>(b));
  }
  static MQ_INLINE Reg bits_subtract(Reg a, Reg b) {
    return std::bit_cast<Reg>(std::bit_cast<Bits>(a) - std::bit_cast<Bits>(b));
  }
  // Bytes whose highest bit is the sign of a lane; the other bits are arbitrary.
  static MQ_INLINE Bytes sign_bytes(const Reg (&v)[kLanes]) {
    Bytes bytes;
    for (int i = 0; i < kLanes; ++i)
      bytes.lane[i] = static_cast<std::uint8_t>(std::bit_cast<Bits>(v[i]) >> (8 * sizeof(T) - 8));
    return bytes;
  }
  static MQ_INLINE Reg bits_least(Reg a, Reg b) {
    return std::bit_cast<Reg>(std::min(std::bit_cast<Mask>(a), std::bit_cast<Mask>(b)));
  }
  static MQ_INLINE Reg bits_greatest(Reg a, Reg b) {
    return std::bit_cast<Reg>(std::max(std::bit_cast<Mask>(a), std::bit_cast<Mask>(b)));
  }
  static MQ_INLINE Bits any_lane(Reg v) { return std::bit_cast<Bits>(v); }
  static MQ_INLINE void of_byte_bits(const Bytes& bytes, Reg (&v)[kLanes]) {
    for (int i = 0; i < kLanes; ++i) v[i] = std::bit_cast<Reg>(Bits{bytes.lane[i]});
  }
  static MQ_INLINE Reg of_u16(const std::byte* p) { return static_cast<Reg>(load_code(p)); }
  static MQ_INLINE Reg of_u16_bits(const std::byte* p) {
    return std::bit_cast<Reg>(static_cast<Bits>(load_code(p)));
  }
  static MQ_INLINE std::uint32_t signs(Reg v) {
    return std::signbit(v);
  }  // bit i is set if lane i is negative or -0
  // -0 is at least +0; false for NaN.
  static MQ_INLINE Mask at_least(Reg a, Reg b) { return -static_cast<Mask>(a >= b); }
  static MQ_INLINE Mask finite(Reg v) { return -static_cast<Mask>(std::isfinite(v)); }
  static MQ_INLINE Mask any_bit(Reg v) { return -static_cast<Mask>(std::bit_cast<Mask>(v) != 0); }
  static MQ_INLINE Mask ordered(Reg v) { return -static_cast<Mask>(v == v); }  // not NaN
  static MQ_INLINE Reg abs(Reg v) { return std::abs(v); }
  static MQ_INLINE Reg select(Mask m, Reg set, Reg clear) {
    return std::bit_cast<Reg>((std::bit_cast<Mask>(set) & m) | (std::bit_cast<Mask>(clear) & ~m));
  }
  static MQ_INLINE Reg add_where(Reg sum, Mask m, Reg v) { return sum + where(m, v); }
  static MQ_INLINE Reg add_where_not(Reg sum, Mask m, Reg v) { return sum + where(~m, v); }
  // Bit i is lane i; the other bits are ignored.
  static MQ_INLINE std::uint32_t bits(Mask m) { return static_cast<std::uint32_t>(m & 1); }
  static MQ_INLINE Mask from_bits(std::uint32_t b) { return -static_cast<Mask>(b & 1u); }
  // Lane i is `set` if bit first + i is set, else `clear`.
  static MQ_INLINE Reg pick(std::uint32_t b, int first, Reg set, Reg clear) {
    return select(-static_cast<Mask>((b >> first) & 1u), set, clear);
  }
  // Convert between 16-bit codes and a register of floats.
  static MQ_INLINE Reg load_f16(const std::byte* p) {
    return std::bit_cast<Reg>(bits_from_f16(load_code(p)));
  }
  static MQ_INLINE Reg load_bf16(const std::byte* p) {
    return std::bit_cast<Reg>(bits_from_bf16(load_code(p)));
  }
  static MQ_INLINE void store_f16(std::byte* p, Reg v) {
    store_code(p, f16_from_bits(std::bit_cast<std::uint32_t>(v)));
  }
  static MQ_INLINE void store_bf16(std::byte* p, Reg v) {
    store_code(p, bf16_from_bits(std::bit_cast<std::uint32_t>(v)));
  }
  // The upper halves of the lanes.
  static MQ_INLINE void store_upper(std::byte* p, Reg v) {
    store_code(p, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16));
  }

 private:
  static MQ_INLINE std::uint16_t load_code(const std::byte* p) {
    std::uint16_t code;
    std::memcpy(&code, p, sizeof code);
    return code;
  }
  static MQ_INLINE void store_code(std::byte* p, std::uint16_t code) { std::memcpy(p, &code, sizeof code); }
  static MQ_INLINE Reg where(Mask m, Reg v) { return std::bit_cast<Reg>(std::bit_cast<Mask>(v) & m); }
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

// Stores the top bits of 64 bytes in a word and sets the bytes to 0. Each byte is 0 or 0xff.
MQ_INLINE void take_top_bits(std::byte* bytes, std::byte* word) {
  for (int i = 0; i < 8; ++i, bytes += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes, sizeof eight);
    // Bit j of byte j; the multiplication moves them all into the highest byte.
    word[i] = static_cast<std::byte>((eight & 0x8040201008040201) * 0x0101010101010101 >> 56);
    std::memset(bytes, 0, 8);
  }
}

// Fills a tile of random bits (philox.hpp) from the draw with number `first` on, and upper half rounds.upper.
inline __attribute__((noinline)) void random_tile(std::byte* tile, std::uint32_t first,
                                                  const RandomRounds& rounds) {
  for (int draw = 0; draw < philox::kDrawsOfTile; ++draw) {
    const philox::Block block =
        philox::draw({{first + static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(rounds.upper),
                       static_cast<std::uint32_t>(rounds.sum), static_cast<std::uint32_t>(rounds.sum >> 32)}},
                     rounds.key[0][0], rounds.key[0][1]);
    for (int i = 0; i < 4; ++i) std::memcpy(tile + 64 * i + 4 * draw, &block.word[i], 4);
  }
}
