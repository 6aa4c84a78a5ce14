// The half types, 32 lanes at a time, and the conversion of vectors (convert.hpp). The half-size codecs use
// it too. Included once per instruction set, after lanes-inl.hpp.
#pragma once
#include "kernels/host/lanes-inl.hpp"

// A format converts between a register of floats and 16-bit codes.
struct F16Format {
  using N = Native<float>;
  static MQ_INLINE N::Reg load(const std::byte* p) { return N::load_f16(p); }
  static MQ_INLINE void store(std::byte* p, N::Reg v) { N::store_f16(p, v); }
};

struct Bf16Format {
  using N = Native<float>;
  static MQ_INLINE N::Reg load(const std::byte* p) { return N::load_bf16(p); }
  static MQ_INLINE void store(std::byte* p, N::Reg v) { N::store_bf16(p, v); }
};

// Loads and stores the codes of all or some of 32 lanes, at any alignment.
template <class Format>
struct Halves {
  static constexpr int kCodeBytes = 2, kRegBytes = kCodeBytes * Native<float>::kWidth;

  static MQ_INLINE void store(const Lanes<float>& v, std::byte* codes, Whole) {
    for (int i = 0; i < Lanes<float>::kRegs; ++i) Format::store(codes + i * kRegBytes, v.r[i]);
  }
  static MQ_INLINE void store(const Lanes<float>& v, std::byte* codes, Part part) {
    std::byte padded[kCodeBytes * kLanes];
    store(v, padded, Whole{});
    std::memcpy(codes, padded, kCodeBytes * part.count);
  }
  static MQ_INLINE Lanes<float> load(const std::byte* codes, Whole) {
    Lanes<float> v;
    for (int i = 0; i < Lanes<float>::kRegs; ++i) v.r[i] = Format::load(codes + i * kRegBytes);
    return v;
  }
  static MQ_INLINE Lanes<float> load(const std::byte* codes, Part part) {  // missing lanes are +0
    std::byte padded[kCodeBytes * kLanes] = {};
    std::memcpy(padded, codes, kCodeBytes * part.count);
    return load(padded, Whole{});
  }
};

template <class Format>
struct Convert {
  static void widen(const void* half, void* out, std::size_t n) noexcept {
    const DefaultFloatingPoint environment;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) widen_group(half, out, g, Whole{});
    if (rest) widen_group(half, out, whole, Part{rest});
  }
  static void narrow(const void* v, void* half, void* residual, std::size_t n) noexcept {
    const DefaultFloatingPoint environment;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) narrow_group(v, half, residual, g, Whole{});
    if (rest) narrow_group(v, half, residual, whole, Part{rest});
  }

 private:
  using L = Lanes<float>;
  static constexpr std::size_t kFloats = kLanes * sizeof(float), kCodes = kLanes * 2;  // bytes of a group

  template <class W>
  static MQ_INLINE void widen_group(const void* half, void* out, std::size_t g, W width) {
    const auto* codes = static_cast<const std::byte*>(half) + g * kCodes;
    Halves<Format>::load(codes, width).store(static_cast<std::byte*>(out) + g * kFloats, width);
  }
  template <class W>
  static MQ_INLINE void narrow_group(const void* in, void* half, void* residual, std::size_t g, W width) {
    const L v = L::load(static_cast<const std::byte*>(in) + g * kFloats, width);
    auto* const codes = static_cast<std::byte*>(half) + g * kCodes;
    Halves<Format>::store(v, codes, width);
    if (residual == nullptr) return;
    const L rounded = Halves<Format>::load(codes, width);
    auto* const kept = static_cast<std::byte*>(residual) + g * kFloats;
    deposited(L::load(kept, width), v - rounded).store(kept, width);
  }
};

template <class... Format>
inline constexpr std::array kConvert{ConvertOps{&Convert<Format>::widen, &Convert<Format>::narrow}...};
