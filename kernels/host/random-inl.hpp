// Random numbers for the loops: the bits of philox.hpp, a tile of 128 elements at a time.

class Noise {
 public:
  explicit MQ_INLINE Noise(const Site& site) : keys_(random_keys(site.call)), sum_(site.sum) {}
  // One number per lane, for the elements from `element` on, which is a multiple of 32: odd multiples of 2^-17 between
  // -1/2 and 1/2, all equally likely. Rounding v plus such a number to the nearest integer has the mean v within 2^-17.
  template <class T>
  MQ_INLINE Lanes<T> at(std::uint64_t element) {
    const std::uint64_t number = element / philox::kTile * philox::kDrawsOfTile;
    if (number != first_) {
      random_tile(tile_, number, sum_, keys_);
      first_ = number;
    }
    const std::byte* const bits = tile_ + 2 * (element % philox::kTile);
    Lanes<T> v;
    for (int i = 0; i < Lanes<T>::kRegs; ++i) v.r[i] = Native<T>::of_u16(bits + 2 * Native<T>::kWidth * i);
    return v * Lanes<T>::all(T{0x1p-16}) + Lanes<T>::all(T{0x1p-17} - T{0.5});
  }

 private:
  static constexpr std::uint64_t kNone = 1;  // not a multiple of kDrawsOfTile
  alignas(64) std::byte tile_[2 * philox::kTile];
  RandomKeys keys_;
  std::uint64_t sum_, first_ = kNone;
};

// What codecs that round to the nearest use in its place.
struct NoNoise {
  explicit MQ_INLINE NoNoise(const Site&) {}
};
