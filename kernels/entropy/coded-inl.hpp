// code=entropy: what a codec whose codes have a fixed number of bits needs, to send them by the entropy stage
// (stage.hpp).
//
// A vector is cut into pieces of kPiece elements. A piece is first encoded as without the parameter, which
// also sets the residual. Then it travels in one of two forms:
//
//   as it is   a byte 0, and the wire of these elements without the parameter
//   packed     the codes, packed by stage.hpp, if that takes fewer bytes than the codes have; then the heads
//              of all blocks
//
// So a message is at most a byte a piece longer than without the parameter. A decode restores that wire
// first, and then decodes it, so the values are the same.
#pragma once
#include "kernels/host/packed-inl.hpp"

inline constexpr std::array<std::string_view, 2> kCodeWords{"fixed", "entropy"};
inline constexpr ParamSpec kCodeSpec{
    "code",    "codes of fixed length, or packed where that takes fewer bytes", ParamKind::word, 0, 0, 1,
    kCodeWords};

// Where codes are in the wire without the parameter: a block begins with a head, and has 4 bits() bytes for
// each 32 elements (host/packed-inl.hpp).
struct CodePlaces {
  std::size_t block;
  std::size_t head, head_of_group;  // bytes of a head: of a block, and for each 32 elements
  int bits;

  static constexpr std::size_t kPiece = 4096;
  static constexpr std::size_t kMostHeads = 2048;  // bytes of the heads of a piece
  static MQ_INLINE std::size_t groups(std::size_t n) { return (n + kLanes - 1) / kLanes; }
  MQ_INLINE std::size_t head_bytes(std::size_t n) const { return head + groups(n) * head_of_group; }
  MQ_INLINE std::size_t group_bytes() const { return 4 * static_cast<std::size_t>(bits); }
  MQ_INLINE std::size_t symbols_of_group() const {
    return 4 * static_cast<std::size_t>(entropy::symbol_bits(bits));
  }
  // Bytes that an encode writes at most, where one without the parameter writes this many.
  static std::size_t bound(std::size_t bytes, std::size_t n) { return bytes + (n + kPiece - 1) / kPiece; }
};

// The heads and the symbols of n elements of a piece: taken from a wire, or put into it.
class CodeSymbols {
 public:
  std::byte heads[CodePlaces::kMostHeads];
  std::byte symbols[entropy::kMostSymbols];
  std::size_t head_bytes, count;  // of the heads; of the symbols

  static MQ_INLINE std::size_t symbol_count(const CodePlaces& places, std::size_t n) {
    return CodePlaces::groups(n) * places.symbols_of_group();
  }
  void take(const std::byte* wire, std::size_t n, const CodePlaces& places) {
    std::byte *head = heads, *symbol = symbols;
    for (std::size_t begin = 0; begin < n; begin += places.block) {
      const std::size_t some = std::min(places.block, n - begin), bytes = places.head_bytes(some);
      std::memcpy(head, wire, bytes);
      head += bytes;
      wire += bytes;
      const std::size_t codes = CodePlaces::groups(some) * places.group_bytes();
      if (places.bits == entropy::symbol_bits(places.bits)) {
        std::memcpy(symbol, wire, codes);
        symbol += codes;
      } else {
        for (std::size_t g = 0; g < CodePlaces::groups(some); ++g, symbol += places.symbols_of_group())
          pack(symbol, entropy::symbol_bits(places.bits),
               unpack(wire + g * places.group_bytes(), places.bits));
      }
      wire += codes;
    }
    head_bytes = static_cast<std::size_t>(head - heads);
    count = static_cast<std::size_t>(symbol - symbols);
  }
  // Returns the bytes of the wire.
  std::size_t put(std::byte* wire, std::size_t n, const CodePlaces& places) const {
    const std::byte *head = heads, *symbol = symbols, *const first = wire;
    for (std::size_t begin = 0; begin < n; begin += places.block) {
      const std::size_t some = std::min(places.block, n - begin), bytes = places.head_bytes(some);
      std::memcpy(wire, head, bytes);
      head += bytes;
      wire += bytes;
      const std::size_t codes = CodePlaces::groups(some) * places.group_bytes();
      if (places.bits == entropy::symbol_bits(places.bits)) {
        std::memcpy(wire, symbol, codes);
        symbol += codes;
      } else {
        for (std::size_t g = 0; g < CodePlaces::groups(some); ++g, symbol += places.symbols_of_group())
          pack(wire + g * places.group_bytes(), places.bits,
               unpack(symbol, entropy::symbol_bits(places.bits)));
      }
      wire += codes;
    }
    return static_cast<std::size_t>(wire - first);
  }
};

inline const std::uint8_t* as_symbols(const std::byte* bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}

// encode(args) encodes without the parameter.
template <class T, class Encode>
Encoded encode_pieces(const EncodeArgs& a, const CodePlaces& places, const entropy::Tables& tables,
                      Encode&& encode) {
  CodeSymbols codes;
  std::byte packed[entropy::kPackRoom];
  Encoded result;
  std::byte* wire = a.wire;
  for (std::size_t begin = 0; begin < a.n; begin += CodePlaces::kPiece) {
    EncodeArgs piece = a;
    piece.n = std::min(CodePlaces::kPiece, a.n - begin);
    piece.x = static_cast<const std::byte*>(a.x) + begin * sizeof(T);
    if (a.residual != nullptr) piece.residual = static_cast<std::byte*>(a.residual) + begin * sizeof(T);
    piece.wire = wire + 1;
    piece.noise.index += begin;
    const Encoded encoded = encode(piece);
    result.nonfinite += encoded.nonfinite;
    result.overflows += encoded.overflows;
    codes.take(wire + 1, piece.n, places);
    const std::size_t limit = 1 + encoded.bytes - codes.head_bytes;
    const std::size_t bytes = entropy::pack(tables, as_symbols(codes.symbols), codes.count, limit, packed);
    if (bytes != 0 && bytes < limit) {
      std::memcpy(wire, packed, bytes);
      std::memcpy(wire + bytes, codes.heads, codes.head_bytes);
      wire += bytes + codes.head_bytes;
    } else {
      *wire = std::byte{0};
      wire += 1 + encoded.bytes;
    }
  }
  result.bytes = static_cast<std::size_t>(wire - a.wire);
  return result;
}

// The heads of n elements.
inline std::size_t heads_of(std::size_t n, const CodePlaces& places) {
  const std::size_t rest = n % places.block;
  return n / places.block * places.head_bytes(places.block) + (rest != 0 ? places.head_bytes(rest) : 0);
}

// decode(args) decodes what encode(args) wrote.
template <class T, class Decode>
Decoded decode_pieces(const DecodeArgs& a, const CodePlaces& places, const entropy::Tables& tables,
                      Decode&& decode) {
  CodeSymbols codes;
  std::byte restored[CodePlaces::kMostHeads + entropy::kMostSymbols];
  const std::byte *wire = a.wire, *const end = a.wire + a.wire_bytes;
  for (std::size_t begin = 0; begin < a.n; begin += CodePlaces::kPiece) {
    if (wire == end) return Decoded::malformed;
    DecodeArgs piece = a;
    piece.n = std::min(CodePlaces::kPiece, a.n - begin);
    piece.x = static_cast<std::byte*>(a.x) + begin * sizeof(T);
    if (a.base != nullptr) piece.base = static_cast<const std::byte*>(a.base) + begin * sizeof(T);
    piece.noise.index += begin;
    const auto available = static_cast<std::size_t>(end - wire);
    const std::size_t heads = heads_of(piece.n, places),
                      code_bytes = CodePlaces::groups(piece.n) * places.group_bytes();
    if (*wire == std::byte{0}) {
      piece.wire = wire + 1;
      piece.wire_bytes = heads + code_bytes;
      if (available - 1 < piece.wire_bytes) return Decoded::malformed;
      wire += 1 + piece.wire_bytes;
    } else {
      const std::size_t bytes =
          entropy::unpack(tables, wire, available, CodeSymbols::symbol_count(places, piece.n),
                          reinterpret_cast<std::uint8_t*>(codes.symbols));
      if (bytes == 0 || bytes > code_bytes || available - bytes < heads) return Decoded::malformed;
      std::memcpy(codes.heads, wire + bytes, heads);
      piece.wire = restored;
      piece.wire_bytes = codes.put(restored, piece.n, places);
      wire += bytes + heads;
    }
    if (decode(piece) != Decoded::ok) return Decoded::malformed;
  }
  return wire == end ? Decoded::ok : Decoded::malformed;
}
