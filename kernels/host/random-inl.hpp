// Random numbers for the loops: the bits of philox.hpp, a tile of 128 elements at a time.
#pragma once
#include "kernels/host/lanes-inl.hpp"

class Noise {
 public:
  explicit MQ_INLINE Noise(const NoiseIndex& noise)
      : call_(noise.call), rounds_(random_rounds(noise.call, noise.sum, 0)) {}
  // One random number for each lane, for the elements from `element` on, which is a multiple of 32. The
  // numbers are odd multiples of 2^-17 between -1/2 and 1/2, all equally likely. Rounding v plus such a
  // number to the nearest integer has the mean v within 2^-17.
  template <class T>
  MQ_INLINE Lanes<T> at(std::uint64_t element) {
    const std::byte* const bits = of(element);
    Lanes<T> v;
    for (int i = 0; i < Lanes<T>::kRegs; ++i) v.r[i] = Native<T>::of_u16(bits + 2 * Native<T>::kWidth * i);
    return v * Lanes<T>::all(T{0x1p-16}) + Lanes<T>::all(T{0x1p-17} - T{0.5});
  }
  // The random bits of each lane as a bit pattern, 0 to 2^16 - 1. A float's magnitude plus such a number in
  // the highest of the bits that are then cut off is rounded to a neighbour, with the mean of the float
  // within 2^-16 of their distance.
  template <class T>
  MQ_INLINE Lanes<T> bits_at(std::uint64_t element) {
    const std::byte* const bits = of(element);
    Lanes<T> v;
    for (int i = 0; i < Lanes<T>::kRegs; ++i)
      v.r[i] = Native<T>::of_u16_bits(bits + 2 * Native<T>::kWidth * i);
    return v;
  }

 private:
  // The 16 bits of this element and the next ones of its tile.
  MQ_INLINE const std::byte* of(std::uint64_t element) {
    const std::uint64_t number = element / philox::kTile * philox::kDrawsOfTile;
    if (number != first_) {
      if (number >> 32 != rounds_.upper) [[unlikely]]
        rounds_ = random_rounds(call_, rounds_.sum, number >> 32);
      random_tile(tile_, static_cast<std::uint32_t>(number), rounds_);
      first_ = number;
    }
    return tile_ + 2 * (element % philox::kTile);
  }
  static constexpr std::uint64_t kNone = 1;  // not a multiple of kDrawsOfTile
  alignas(64) std::byte tile_[2 * philox::kTile];
  std::uint64_t call_, first_ = kNone;
  RandomRounds rounds_;
};

// What codecs that round to the nearest use in its place.
struct NoNoise {
  explicit MQ_INLINE NoNoise(const NoiseIndex&) {}
};
