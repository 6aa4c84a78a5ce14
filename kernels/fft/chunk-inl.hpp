// One chunk of codec fft: between its elements, its coefficients and its bytes. fft/fft.hpp describes the
// codec and the wire.
#pragma once
#include "kernels/fft/format-inl.hpp"
#include "kernels/fft/fourier-inl.hpp"
#include "kernels/host/loops-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/patterns/coder-inl.hpp"
#include "kernels/sparse/entries-inl.hpp"

template <class T>
class FftChunk {
 public:
  using L = Lanes<T>;
  using Range = FloatRange<T>;
  using Word = typename Range::Word;
  using Format = FftHeader::Format;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
  static constexpr int kMostExponent = std::numeric_limits<T>::max_exponent - 3;
  static constexpr int kLeastExponent = std::numeric_limits<T>::min_exponent - 1;

  FftChunk(const FftParams& p, std::size_t n)
      : p_(p), range_(p.range), n_(n), coefficients_(FftParams::coefficients(n)) {}

  // Reads the elements. Returns the number of those that are not finite.
  template <Feedback F>
  std::size_t read(const Source<T, F>& source) {
    std::size_t nonfinite = 0;
    L most = L::all(T{0});
    const auto add = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      source.ask(g);
      L v = source.v(g, width);
      const std::uint32_t finite = v.finite().bits();
      if ((~finite & width.bits) != 0) [[unlikely]] {
        nonfinite += static_cast<std::size_t>(std::popcount(~finite & width.bits));
        v = L::select(v.ordered(), v,
                      L::all(std::numeric_limits<T>::quiet_NaN()));  // the same NaN everywhere
      }
      most = L::greatest_magnitude(most, v);
      v.store(bytes(v_) + g * kGroupBytes, Whole{});
    };
    for (std::size_t g = 0; g < n_ / kLanes; ++g) add(g, Whole{});
    if (n_ % kLanes) add(n_ / kLanes, Part{n_ % kLanes});
    const T magnitude = most.greatest_of_lanes();
    exponent_ = kLeastExponent;
    if (magnitude > 0 && std::isfinite(magnitude)) exponent_ = std::max(std::ilogb(magnitude), exponent_);
    marked_ = nonfinite > 0 || exponent_ > kMostExponent;
    return nonfinite;
  }

  // The number of elements that cannot be sent (Encoded::overflows). The chunk was read, and all its elements
  // are finite. Without a residual: all of them if they decode to NaN, else none. With a residual, where they
  // wait: those that are too large.
  std::size_t overflows(bool has_residual) const {
    if (!marked_ || exponent_ <= kMostExponent || FftParams::plain(n_)) return 0;
    if (!has_residual) return n_;
    const T limit = std::ldexp(T{1}, kMostExponent + 1);
    return static_cast<std::size_t>(
        std::count_if(v_, v_ + n_, [limit](T v) { return std::abs(v) >= limit; }));
  }

  // Write a chunk that was read; return its size. `decoded` has what it decodes to afterwards, if `decodes`.
  std::size_t write(std::byte* wire, bool has_residual, bool decodes) {
    if (FftParams::plain(n_)) return write_plain(wire);
    if (marked_) return write_marks(wire, has_residual);
    const T scale = std::ldexp(T{1}, -exponent_);
    const std::size_t padded = 2 * (coefficients_ - 1);
    for (std::size_t i = 0; i < n_; ++i) decoded_[i] = v_[i] * scale;
    std::fill(decoded_ + n_, decoded_ + padded, T{0});
    Fourier<T>& fourier = transform();
    fourier.forward(decoded_, re_, im_);
    choose();
    std::byte* out = put_header(wire, FftHeader::coefficients);
    std::byte* const bitmap = out + (p_.exact() ? 0 : sizeof(Word));
    std::memcpy(bitmap, sent_, bitmap_bytes());
    put_parts(out, bitmap + bitmap_bytes());
    if (decodes) decode(exponent_);
    return static_cast<std::size_t>(bitmap - wire) + bitmap_bytes() + p_.template part_bytes<T>(2 * count_);
  }

  // Reads a chunk from the wire into `decoded`. Returns its size, or 0 if it is malformed.
  std::size_t read_wire(const std::byte* wire, std::size_t left) {
    FftHeader header;
    if (left < sizeof header) return 0;
    std::memcpy(&header, wire, sizeof header);
    wire += sizeof header;
    left -= sizeof header;
    std::size_t used = 0;
    if (header.format == FftHeader::plain && FftParams::plain(n_) && header.exponent == 0 &&
        left >= n_ * sizeof(T)) {
      std::memcpy(decoded_, wire, n_ * sizeof(T));
      used = n_ * sizeof(T);
    } else if (FftParams::plain(n_)) {
      return 0;
    } else if (header.format == FftHeader::coefficients && header.exponent >= kLeastExponent &&
               header.exponent <= kMostExponent) {
      used = read_coefficients(wire, left);
      if (used > 0) decode(header.exponent);
    } else if ((header.format == FftHeader::kept || header.format == FftHeader::lost) &&
               header.exponent == 0) {
      used = read_marks(wire, left, header.format == FftHeader::lost);
    }
    return used > 0 ? sizeof header + used : 0;
  }

  MQ_INLINE const std::byte* v() const { return reinterpret_cast<const std::byte*>(v_); }
  MQ_INLINE const std::byte* decoded() const { return reinterpret_cast<const std::byte*>(decoded_); }

 private:
  static MQ_INLINE std::byte* bytes(void* p) { return static_cast<std::byte*>(p); }
  std::size_t bitmap_bytes() const { return (coefficients_ + 7) / 8; }
  Fourier<T>& transform() { return fourier_.with_elements(2 * (coefficients_ - 1)); }

  std::byte* put_header(std::byte* wire, Format format) const {
    const FftHeader header{static_cast<std::int16_t>(format == FftHeader::coefficients ? exponent_ : 0),
                           format};
    std::memcpy(wire, &header, sizeof header);
    return wire + sizeof header;
  }

  std::size_t write_plain(std::byte* wire) {
    std::memcpy(put_header(wire, FftHeader::plain), v_, n_ * sizeof(T));
    std::memcpy(decoded_, v_, n_ * sizeof(T));
    return sizeof(FftHeader) + n_ * sizeof(T);
  }

  std::size_t write_marks(std::byte* wire, bool has_residual) {
    std::byte* out = put_header(wire, has_residual ? FftHeader::kept : FftHeader::lost);
    const T mark = nonfinite_of<T>(v(), n_).mark;
    std::memcpy(out, &mark, sizeof mark);
    out += sizeof mark;
    std::memset(out, 0, (n_ + 7) / 8);
    for (std::size_t i = 0; i < n_; ++i)
      if (!std::isfinite(v_[i])) out[i / 8] |= static_cast<std::byte>(1u << i % 8);
    std::fill(decoded_, decoded_ + n_, T{0});  // what is kept; nobody asks for the others
    return static_cast<std::size_t>(out - wire) + (n_ + 7) / 8;
  }

  std::size_t read_marks(const std::byte* wire, std::size_t left, bool lost) {
    T mark;
    if (left < sizeof mark + (n_ + 7) / 8) return 0;
    std::memcpy(&mark, wire, sizeof mark);
    wire += sizeof mark;
    if (std::isfinite(mark)) return 0;
    if (n_ % 8 != 0 && std::to_integer<unsigned>(wire[n_ / 8]) >> n_ % 8 != 0) return 0;
    const T rest = lost ? std::numeric_limits<T>::quiet_NaN() : T{0};
    for (std::size_t i = 0; i < n_; ++i)
      decoded_[i] = (std::to_integer<unsigned>(wire[i / 8]) >> i % 8 & 1) != 0 ? mark : rest;
    return sizeof mark + (n_ + 7) / 8;
  }

  // Which coefficients are sent, and their parts.
  void choose() {
    T* const energy = parts_;
    for (std::size_t k = 0; k < coefficients_; ++k) energy[k] = (re_[k] * re_[k] + im_[k] * im_[k]) * T{2};
    energy[0] = energy[0] * T{0.5};
    energy[coefficients_ - 1] = energy[coefficients_ - 1] * T{0.5};
    Cutoff<T> cutoff{T{0}, 0};
    if (!find_cutoff<T>(bytes(energy), coefficients_, kBoth, p_.most(n_), 0, kMaxKey<T>, cutoff))
      cutoff = {T{0}, 0};  // fewer are not 0
    count_ = 0;
    const auto add = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      sent_[g] = passing(L::load(bytes(energy) + g * kGroupBytes, width), width.bits, cutoff);
      count_ += static_cast<std::size_t>(std::popcount(sent_[g]));
    };
    const std::size_t whole = coefficients_ / kLanes, rest = coefficients_ % kLanes;
    for (std::size_t g = 0; g < whole; ++g) add(g, Whole{});
    if (rest) add(whole, Part{rest});
    std::size_t i = 0;
    for_each_sent([&](std::size_t k) __attribute__((always_inline)) {
      // The energies of the first coefficients are overwritten; they have been read.
      parts_[i++] = re_[k];
      parts_[i++] = im_[k];
    });
    std::fill(parts_ + i, parts_ + (i + kLanes - 1) / kLanes * kLanes, T{0});
  }
  template <class Visit>
  MQ_INLINE void for_each_sent(const Visit& visit) const {
    for (std::size_t g = 0; g * kLanes < coefficients_; ++g)
      for (std::uint32_t bits = sent_[g]; bits != 0; bits &= bits - 1)
        visit(g * kLanes + static_cast<std::size_t>(std::countr_zero(bits)));
  }

  // Writes the parts, which become what their codes stand for.
  void put_parts(std::byte* top_at, std::byte* out) {
    const std::size_t parts = 2 * count_;
    if (p_.exact()) {
      std::memcpy(out, parts_, parts * sizeof(T));
      return;
    }
    L most = L::all(T{0});
    for (std::size_t i = 0; i < parts; i += kLanes)
      most = L::greatest_magnitude(most, L::load(bytes(parts_ + i), Whole{}));
    const Word top = range_.within(range_.rounded(std::bit_cast<Word>(most.greatest_of_lanes())));
    std::memcpy(top_at, &top, sizeof top);
    const RangeCoder<T, L> coder(range_, top);
    for (std::size_t i = 0; i < parts; i += kLanes) {
      const auto rounded = coder.rounded(L::load(bytes(parts_ + i), Whole{}));
      rounded.value.store(bytes(parts_ + i), Whole{});
      const Bytes codes = rounded.code.low_bytes();
      if (parts - i >= kLanes) {
        pack(out, p_.bits, codes);
        out += range_.group();
      } else {
        std::byte last[kLanes];
        store_bytes(last, codes);
        std::memcpy(out, last, parts - i);
      }
    }
  }

  std::size_t read_coefficients(const std::byte* wire, std::size_t left) {
    const std::size_t head = p_.exact() ? 0 : sizeof(Word);
    if (left < head + bitmap_bytes()) return 0;
    Word top = 0;
    std::memcpy(&top, wire, head);
    if (!p_.exact() && top != range_.within(top)) return 0;
    const std::size_t groups = (coefficients_ + kLanes - 1) / kLanes;
    std::memset(sent_, 0, groups * sizeof(std::uint32_t));
    std::memcpy(sent_, wire + head, bitmap_bytes());
    count_ = 0;
    for (std::size_t g = 0; g < groups; ++g) count_ += static_cast<std::size_t>(std::popcount(sent_[g]));
    const std::size_t used = coefficients_ % kLanes;
    if (used != 0 && sent_[groups - 1] >> used != 0) return 0;
    const std::size_t bytes_of_parts = p_.template part_bytes<T>(2 * count_);
    if (count_ > p_.most(n_) || left < head + bitmap_bytes() + bytes_of_parts) return 0;
    if (!get_parts(wire + head + bitmap_bytes(), top)) return 0;
    return head + bitmap_bytes() + bytes_of_parts;
  }

  // False if encode cannot have written these codes.
  bool get_parts(const std::byte* in, Word top) {
    const std::size_t parts = 2 * count_;
    std::uint32_t finite = Whole::bits;
    if (p_.exact()) {
      std::memcpy(parts_, in, parts * sizeof(T));
      std::fill(parts_ + parts, parts_ + (parts + kLanes - 1) / kLanes * kLanes, T{0});
      for (std::size_t i = 0; i < parts; i += kLanes)
        finite &= L::load(bytes(parts_ + i), Whole{}).finite().bits();
      return finite == Whole::bits;
    }
    const RangeCoder<T, L> coder(range_, top);
    for (std::size_t i = 0; i < parts; i += kLanes) {
      Bytes codes;
      if (parts - i >= kLanes) {
        codes = unpack(in, p_.bits);
        in += range_.group();
      } else {
        std::byte last[kLanes] = {};
        std::memcpy(last, in, parts - i);
        for (const std::byte code : last)
          if (std::to_integer<unsigned>(code) >> p_.bits != 0) return false;
        codes = load_bytes(last);
      }
      const L value = coder.value_of(L::of_byte_bits(codes));
      value.store(bytes(parts_ + i), Whole{});
      finite &= value.finite().bits();
    }
    return finite == Whole::bits;
  }

  // The elements that the parts stand for.
  void decode(int exponent) {
    std::memset(re_, 0, coefficients_ * sizeof(T));
    std::memset(im_, 0, coefficients_ * sizeof(T));
    std::size_t i = 0;
    for_each_sent([&](std::size_t k) __attribute__((always_inline)) {
      re_[k] = parts_[i++];
      im_[k] = parts_[i++];
    });
    transform().inverse(re_, im_, decoded_);
    // Clamped, so that v - decoded stays finite.
    const T scale = std::ldexp(T{1}, exponent),
            limit = std::numeric_limits<T>::max() / 2 * std::ldexp(T{1}, -exponent);
    const L high = L::all(limit), low = L::all(-limit), up = L::all(scale);
    for (std::size_t at = 0; at < n_; at += kLanes)
      (L::load(bytes(decoded_ + at), Whole{}).clamped(low, high) * up).store(bytes(decoded_ + at), Whole{});
  }

  const FftParams& p_;
  const Range range_;
  const std::size_t n_, coefficients_;
  std::size_t count_ = 0;  // coefficients that are sent
  int exponent_ = 0;
  bool marked_ = false;
  std::uint32_t sent_[kTurn / 2 / kLanes + 1];
  alignas(64) T v_[kTurn], decoded_[kTurn], re_[kTurn / 2 + 1], im_[kTurn / 2 + 1];
  alignas(64) T parts_[kTurn + 2 + kLanes];  // real and imaginary in turn; the energies before
  Fourier<T> fourier_;
};
