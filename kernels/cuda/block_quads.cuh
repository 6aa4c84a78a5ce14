// How a warp accesses the elements of a block (blocks.cuh), in quads and in groups: see there. Vectors whose
// addresses are multiples of 16 are accessed 16 bytes a lane; others, and blocks that are not whole, element
// by element.
#pragma once

#include "kernels/cuda/elements.cuh"

namespace mq::simt {

MQ_DEVICE constexpr std::uint32_t groups_of(std::uint32_t n) { return (n + 31) / 32; }

inline constexpr std::uint32_t kStripe = 128, kQuad = 4;
MQ_DEVICE constexpr std::uint32_t stripes_of(std::uint32_t n) { return (n + kStripe - 1) / kStripe; }
template <class T>
using Quad = Pack<T, kQuad>;
// Stripes that are loaded before the first is used. Whole blocks have a multiple of them.
inline constexpr std::uint32_t kStripesAtOnce = 2;

// Places in a block of n elements. kWhole: the block has all elements of all stripes, a multiple of
// kStripesAtOnce of them, and the vectors' addresses are multiples of 16.
template <bool kWhole>
struct Places {
  static constexpr std::uint32_t kAtOnce = kWhole ? kStripesAtOnce : 1;
  std::uint32_t n;
  MQ_DEVICE std::uint32_t index(std::uint32_t g) const { return 32 * g + lane(); }
  MQ_DEVICE bool has(std::uint32_t g) const { return kWhole || index(g) < n; }
  // The first element of this lane's quad of a stripe, and whether element j of the quad exists.
  MQ_DEVICE std::uint32_t first(std::uint32_t stripe) const { return kStripe * stripe + kQuad * lane(); }
  MQ_DEVICE bool has(std::uint32_t stripe, std::uint32_t j) const { return kWhole || first(stripe) + j < n; }
  // Whether the group of 32 elements that the quad belongs to has elements.
  MQ_DEVICE bool has_group(std::uint32_t stripe) const { return kWhole || first(stripe) / 32 * 32 < n; }

  // Elements behind the last are +0.
  template <class T>
  MQ_DEVICE T load_one(const std::byte* p, std::uint32_t g) const {
    if constexpr (kWhole) return element<T, true>(p, index(g));
    return has(g) ? load<T>(p + std::size_t{index(g)} * sizeof(T)) : T{0};
  }
  template <class T>
  MQ_DEVICE Quad<T> load_quad(const std::byte* p, std::uint32_t stripe) const {
    p += std::size_t{first(stripe)} * sizeof(T);
    if constexpr (kWhole) {
      return load_pack<T, kQuad>(p);
    } else {
      Quad<T> v{};
      for (std::uint32_t j = 0; j < kQuad; ++j)
        if (has(stripe, j)) v.of[j] = load<T>(p + j * sizeof(T));
      return v;
    }
  }
  template <class T>
  MQ_DEVICE void store_quad(std::byte* p, std::uint32_t stripe, const Quad<T>& v) const {
    p += std::size_t{first(stripe)} * sizeof(T);
    if constexpr (kWhole) {
      store_pack(p, v);
    } else {
      for (std::uint32_t j = 0; j < kQuad; ++j)
        if (has(stripe, j)) store(p + j * sizeof(T), v.of[j]);
    }
  }
};

// The elements of a block: x, with carry plus the residual.
template <class Element, kernels::Feedback F, bool kWhole = false>
struct BlockSource : Places<kWhole> {
  using T = Element;
  // Worth kernels of their own for some numbers of bits.
  static constexpr bool kUsual = kWhole && F != kernels::Feedback::deposit;
  const std::byte* x;
  std::byte* residual;
  bool keeps;  // there is a residual, even if this encode does not use it
  MQ_DEVICE BlockSource(const std::byte* x_, std::byte* residual_, std::uint32_t n_, bool keeps_)
      : Places<kWhole>{n_}, x(x_), residual(residual_), keeps(keeps_) {}

  MQ_DEVICE T v(std::uint32_t g) const {
    const T alone = this->template load_one<T>(x, g);
    if constexpr (F != kernels::Feedback::carry) return alone;
    return sum_of(alone, this->template load_one<T>(residual, g));
  }
  // Stores what was lost: to the residual with carry, added to it with deposit.
  MQ_DEVICE void keep(std::uint32_t g, T error) const {
    if constexpr (F == kernels::Feedback::none) return;
    if (!this->has(g)) return;
    std::byte* const at = residual + std::size_t{this->index(g)} * sizeof(T);
    store(at, F == kernels::Feedback::deposit ? deposited(load<T>(at), error) : error);
  }

  // The quads of stripes first, first + 1, ...: those behind the last are +0.
  template <std::uint32_t kStripes>
  MQ_DEVICE void read(std::uint32_t first, Quad<T> (&v)[kStripes]) const {
    Quad<T> old[kStripes];
    MQ_UNROLL(8)
    for (std::uint32_t k = 0; k < kStripes; ++k) {
      v[k] = this->template load_quad<T>(x, first + k);
      if constexpr (F == kernels::Feedback::carry) old[k] = this->template load_quad<T>(residual, first + k);
    }
    if constexpr (F == kernels::Feedback::carry) {
      MQ_UNROLL(8)
      for (std::uint32_t k = 0; k < kStripes; ++k) v[k] = sum_of(v[k], old[k]);
    }
  }
  MQ_DEVICE void keep(std::uint32_t stripe, const Quad<T>& error) const {
    if constexpr (F == kernels::Feedback::none) return;
    if constexpr (F == kernels::Feedback::carry) return this->store_quad(residual, stripe, error);
    Quad<T> sum = this->template load_quad<T>(residual, stripe);
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kQuad; ++j) sum.of[j] = deposited(sum.of[j], error.of[j]);
    this->store_quad(residual, stripe, sum);
  }
};

// The quads of a block, read Source::kAtOnce stripes at a time. A block of so many is read once, even if it
// is visited twice.
template <class Source>
class BlockQuads {
 public:
  using T = typename Source::T;
  explicit MQ_DEVICE BlockQuads(const Source& source) : source_(source) { source.read(0, v_); }
  // Calls visit(stripe, quad) for every stripe.
  template <class Visit>
  MQ_DEVICE void each(const Visit& visit) {
    const std::uint32_t stripes = stripes_of(source_.n);
    MQ_UNROLL(1)
    for (std::uint32_t first = 0; first < stripes; first += Source::kAtOnce) {
      if (first != at_) source_.read(at_ = first, v_);
      MQ_UNROLL(8)
      for (std::uint32_t k = 0; k < Source::kAtOnce; ++k) visit(first + k, v_[k]);
    }
  }
  // The bit pattern of the greatest magnitude; the pattern of NaN and Inf is at least BitsOf<T>::kInf.
  MQ_DEVICE typename BitsOf<T>::Word greatest() {
    typename BitsOf<T>::Word most = 0;
    each([&](std::uint32_t, const Quad<T>& v) {
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j)
        most = greater(most, bits_as<typename BitsOf<T>::Word>(v.of[j]) & ~BitsOf<T>::kSign);
    });
    return warp_max(most);
  }
  // The same of the finite elements. `all` is what greatest() returned.
  MQ_DEVICE typename BitsOf<T>::Word greatest_finite(typename BitsOf<T>::Word all) {
    if (all < BitsOf<T>::kInf) return all;
    typename BitsOf<T>::Word most = 0;
    each([&](std::uint32_t, const Quad<T>& v) {
      for (std::uint32_t j = 0; j < kQuad; ++j)
        if (is_finite(v.of[j]))
          most = greater(most, bits_as<typename BitsOf<T>::Word>(v.of[j]) & ~BitsOf<T>::kSign);
    });
    return warp_max(most);
  }
  // How many are not finite.
  MQ_DEVICE std::uint32_t not_finite(typename BitsOf<T>::Word all) {
    if (all < BitsOf<T>::kInf) return 0;
    std::uint32_t count = 0;
    each([&](std::uint32_t, const Quad<T>& v) {
      for (std::uint32_t j = 0; j < kQuad; ++j) count += !is_finite(v.of[j]);
    });
    return warp_sum(count);
  }

 private:
  const Source& source_;
  std::uint32_t at_ = 0;
  Quad<T> v_[Source::kAtOnce];
};

// Where the elements of a block go.
template <class Element, bool kAdd, bool kWhole = false>
struct BlockTarget : Places<kWhole> {
  using T = Element;
  static constexpr bool kUsual = kWhole;
  static constexpr std::uint32_t kAtOnce = Places<kWhole>::kAtOnce;
  const std::byte* base;
  std::byte* x;
  MQ_DEVICE BlockTarget(const std::byte* base_, std::byte* x_, std::uint32_t n_)
      : Places<kWhole>{n_}, base(base_), x(x_) {}

  MQ_DEVICE void put(std::uint32_t g, T decoded) const {
    if (!this->has(g)) return;
    const std::size_t at = std::size_t{this->index(g)} * sizeof(T);
    store(x + at, kAdd ? joined_sum(load<T>(base + at), decoded) : decoded);
  }
  // decoded_of(stripe) is the quad of a stripe. The quads of kAtOnce stripes are computed before the first is
  // stored.
  template <class DecodedOf>
  MQ_DEVICE void put_stripes(const DecodedOf& decoded_of) const {
    const std::uint32_t stripes = stripes_of(this->n);
    MQ_UNROLL(1)
    for (std::uint32_t first = 0; first < stripes; first += kAtOnce) {
      Quad<T> v[kAtOnce], old[kAtOnce];
      MQ_UNROLL(8)
      for (std::uint32_t k = 0; k < kAtOnce; ++k)
        if constexpr (kAdd) old[k] = this->template load_quad<T>(base, first + k);
      MQ_UNROLL(8)
      for (std::uint32_t k = 0; k < kAtOnce; ++k) v[k] = decoded_of(first + k);
      MQ_UNROLL(8)
      for (std::uint32_t k = 0; k < kAtOnce; ++k) {
        if constexpr (kAdd) {
          MQ_UNROLL(4)
          for (std::uint32_t j = 0; j < kQuad; ++j) v[k].of[j] = joined_sum(old[k].of[j], v[k].of[j]);
        }
        this->store_quad(x, first + k, v[k]);
      }
    }
  }
};

}  // namespace mq::simt
