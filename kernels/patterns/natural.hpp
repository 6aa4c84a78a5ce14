// natural: every element becomes a power of two, the one below or the one above it, at random (Horvath, Ho,
// Horvath, Sahu, Canini, Richtarik. Natural compression for distributed deep learning, 2019, definition 1).
// The mean over the calls is the element, less at most 2^-16 of it, because random numbers have 16 bits. The
// expected squared error is at most 1/8 of the squared element. Only sign and exponent are sent: 9 bits per
// float, 12 bits per double. There is no scale, so any range of magnitudes will do.
//
// Magnitudes below the least normal number become 0 or that number. Those beyond the greatest power of two
// become that one. Infinities stay; a NaN is sent as minus zero.
//
// Wire, per 32 elements: a byte of each exponent field (doubles: of its lower 8 bits), doubles: the 3 higher
// bits of each exponent field (host/packed-inl.hpp), 4 bytes of signs. The last 32 may have fewer elements;
// the others' bits are 0.
#pragma once
#include "kernels/host/loops-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/patterns/coder-inl.hpp"

struct Natural {
  static constexpr std::string_view kName = "natural";
  static constexpr std::string_view kWhat =
      "sign and exponent, rounded at random (natural compression, Horvath et al. 2019)";
  static constexpr std::uint16_t kId = 16;
  static constexpr bool kLossless = false;
  template <class T>
  using Family = Loops<T, Natural>;

  // Parameters.
  static constexpr std::array<ParamSpec, 0> kSpecs{};
  static constexpr bool stochastic(const Params&) { return true; }

  // Wire format.
  static constexpr std::size_t block(const Params&) { return kLanes; }
  template <class T>
  static constexpr std::size_t kGroup = NaturalWire<T>::kGroup;
  template <class T>
  static constexpr std::size_t code_bytes(std::size_t n) {
    return NaturalWire<T>::bytes(n);
  }
  template <class T>
  static constexpr int kMantissa = FloatBits<T>::kMantissa;

  // Encode.
  template <class T>
  static MQ_INLINE Lanes<T> dithered(const Lanes<T>& v, const Lanes<T>& bits) {
    return dithered_power<T>(v, bits);
  }
  // Missing lanes are 0. Of what is no NaN the mantissa is 0.
  template <class T, class W>
  static MQ_INLINE Lanes<T> put(const Lanes<T>& power, NoScale, std::byte* codes, W) {
    using L = Lanes<T>;
    const L decoded = power + L::all(T{0});  // minus zero is sent as zero
    L sent = decoded;
    if (power.bits_and(L::all_bits((typename L::Bits{1} << kMantissa<T>)-1)).any_lane() != 0) [[unlikely]]
      sent = L::select(power.ordered(), decoded, L::all(-T{0}));
    const L field = sent.bits_right(kMantissa<T>);  // and the sign
    store_bytes(codes, field.low_bytes());
    if constexpr (sizeof(T) == 8)
      pack(codes + 32, 3, field.bits_right(8).bits_and(L::all_bits(7)).low_bytes());
    store_bits(codes + kGroup<T> - 4, sent.signs(), Whole{});
    return decoded;
  }

  // Decode.
  template <class T, class W>
  static MQ_INLINE Lanes<T> get(NoScale, const std::byte* codes, W) {
    using L = Lanes<T>;
    const Bytes low = load_bytes(codes);
    const std::uint32_t negative = load_bits(codes + kGroup<T> - 4, Whole{});
    std::uint32_t zero = zero_bytes(low);
    L field = L::of_byte_bits(low);
    if constexpr (sizeof(T) == 8) {
      const Bytes high = unpack(codes + 32, 3);
      zero &= zero_bytes(high);
      field = field.bits_or(L::of_byte_bits(high).bits_left(8));
    }
    const L value = field.bits_left(kMantissa<T>).bits_or(L::pick(negative, -T{0}, T{0}));
    return L::select(L::mask_of(negative & zero), L::all(std::numeric_limits<T>::quiet_NaN()), value);
  }
  // The bits of missing elements of the last group are 0.
  template <class T>
  static MQ_INLINE bool padding_ok(const std::byte* codes, std::size_t n) {
    const std::size_t rest = n % kLanes;
    if (rest == 0) return true;
    const std::byte* const group = codes + n / kLanes * kGroup<T>;
    std::uint32_t used = ~zero_bytes(load_bytes(group)) | load_bits(group + kGroup<T> - 4, Whole{});
    if constexpr (sizeof(T) == 8) used |= ~zero_bytes(unpack(group + 32, 3));
    return (used & ~Part{rest}.bits) == 0;
  }

  // Bounds.
  static constexpr bool unbiased(const Params&) { return true; }
  static constexpr bool contraction(const Params&) { return true; }  // of every element, by 7/8
  static constexpr double error_bound(const Params&) { return 1; }
};
