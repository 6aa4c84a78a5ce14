// onebit: one sign bit an element and the two side means of its block, with error feedback outside
// (Seide, Fu, Droppo, Li, Yu: 1-bit stochastic gradient descent, Interspeech 2014, section 3; there a block
// is a column). The side means minimise the squared error for the given signs:
// |v - decoded|^2 = |v|^2 - n+ above^2 - n- below^2.
//
// Encode, a block of at most 4096 elements that stays in L1: (1) v = x + residual, sums of both sides, bits
// v >= 0; (2) the new residual. Reads x and residual and writes residual once each: 12 bytes of memory
// traffic an element for floats.
//
// A block with a NaN or Inf sends no value at all: its bits mark the non-finite elements, `above` is what
// they decode to (+Inf or -Inf if they all are, else NaN), `below` is 0, and every finite element stays in
// the residual. In a call without residuals `below` is NaN.
//
// Wire, per block: Means<T>, then ceil(n / 8) bytes of bits. Floats: 1/8 + 8/block bytes an element.

struct OneBit {
  static constexpr std::string_view kName = "onebit";
  static constexpr std::string_view kWhat =
      "sign bit and two side means a block (1-bit SGD, Seide et al. 2014)";
  static constexpr std::uint16_t kId = 3;
  static constexpr bool kLossless = false;
  static constexpr std::array kSpecs{
      ParamSpec{"block", "elements that share a pair of means", ParamKind::power_of_two, 2048, 32, 4096}};
  static constexpr std::size_t block(const Params& p) { return static_cast<std::size_t>(p.value[0]); }
  template <class T>
  static constexpr std::size_t code_bytes(std::size_t n) {
    return (n + 7) / 8;
  }

  template <class T>
  struct Means {
    T below, above;
  };
  static_assert(sizeof(Means<float>) == 8 && sizeof(Means<double>) == 16);

  // Pass 1: sums of both sides; the bits go to the wire at once, for they do not depend on the means. With
  // kHuge it also serves blocks whose sums leave the range of T.
  template <class T, bool kHuge>
  struct Stat {
    SplitSum<T, kHuge> sum;
    std::size_t n_above = 0;

    MQ_INLINE Stat() {}  // spelled out: an implicit constructor is compiled for the baseline processor
    template <class W>
    MQ_INLINE void add(const Lanes<T>& v, std::byte* codes, W width) {
      const auto mask = v.at_least(Lanes<T>::all(T{0}));
      const std::uint32_t bits = mask.bits() & width.bits;
      sum.add(v, mask);
      n_above += static_cast<std::size_t>(std::popcount(bits));
      store_bits(codes, bits, width);
    }
    // False if a sum is not finite; then scale is not set.
    MQ_INLINE bool finish(std::size_t n, Means<T>& scale) const {
      const double above = sum.total(sum.set), below = sum.total(sum.clear);
      scale = {mean(below, n - n_above), mean(above, n_above)};
      return std::isfinite(above) && std::isfinite(below);
    }

   private:
    static MQ_INLINE T mean(double total, std::size_t count) {
      constexpr double kMax = static_cast<double>(std::numeric_limits<T>::max());
      if (count == 0) return T{0};
      const double m = total / static_cast<double>(count) / SplitSum<T, kHuge>::kScale;
      return static_cast<T>(
          std::clamp(m, -kMax, kMax));  // rounding must not carry the mean of huge values out of range
    }
  };

  // Pass 2: what the receivers will see of v.
  template <class T, class W>
  static MQ_INLINE Lanes<T> put(const Lanes<T>& v, Means<T> scale, std::byte*, W) {
    return Lanes<T>::select(v.at_least(Lanes<T>::all(T{0})), Lanes<T>::all(scale.above),
                            Lanes<T>::all(scale.below));
  }
  template <class T, class W>
  static MQ_INLINE Lanes<T> get(Means<T> scale, const std::byte* codes, W width) {
    const auto mask = Lanes<T>::Mask::from_bits(load_bits(codes, width));
    return Lanes<T>::select(mask, Lanes<T>::all(scale.above), Lanes<T>::all(scale.below));
  }
  // Codes that decode to `mark` where bits is 1 and to `rest` elsewhere, under the scale marks(mark, rest).
  template <class W>
  static MQ_INLINE void put_marks(std::uint32_t bits, std::byte* codes, W width) {
    store_bits(codes, bits, width);
  }
  template <class T>
  static MQ_INLINE Means<T> marks(T mark, T rest) {
    return {rest, mark};
  }
  // The bits behind the last element of the last byte are 0 in everything encode writes.
  static MQ_INLINE bool padding_ok(const std::byte* codes, std::size_t n) {
    return n % 8 == 0 || (std::to_integer<unsigned>(codes[n / 8]) >> (n % 8)) == 0;
  }
};
