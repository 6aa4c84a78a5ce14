// meprop: the lines of a matrix with the greatest Euclidean norms, with all their elements; the other lines
// wait in the residual or, without one, are lost, as in the paper (Sun, Ren, Ma, Wang: meProp, ICML 2017).
// Where back-propagation keeps the k greatest of a layer's outputs, only the lines of its weights that belong
// to them have a gradient: these are sent, for one bit a line.
//
// A line is what is contiguous: with info mpiq_matrix = "ROWSxCOLS" it has ROWS elements (ROWSxCOLS:LD: LD,
// with those between two columns). A matrix that is stored row by row, as in C, is named with its sizes
// exchanged, and its lines are its rows. Without that key, lines have 64 elements. Of every `lines` lines,
// ceil(k lines) are sent: each rank chooses alone, and the owner of a part of the sum does so again.
// Ties: the first line. Lines of zeros are not sent, nor those whose squares vanish beside the greatest
// (below 2^-70 of it); with k=1 all are. What is sent is exact.
//
// Of `lines` lines with NaN or Inf in them, none is sent: each of these elements decodes to one value, and
// the others stay in the residual, or decode to NaN without one.
//
// Wire, for each `lines` lines: a 4-byte format, and by its value
//
//   lines       a bit for each line, 1 if it is sent; the lines that are sent
//   kept, lost  the value of elements that are not finite; a bit for each element, 1 for those. The others
//               decode to 0 (kept) or NaN (lost)
#pragma once
#include "kernels/host/loops-inl.hpp"
#include "kernels/meprop/format-inl.hpp"
#include "kernels/sparse/entries-inl.hpp"

template <class T>
struct WholeLines : RowFunctions<WholeLines<T>> {
  static constexpr bool kFixedSize = false;
  using L = Lanes<T>;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);

  // An upper bound.
  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    const MePropParams p(params);
    const std::size_t rest = n % p.block();
    return n / p.block() * p.template bound<T>(p.block()) + (rest ? p.template bound<T>(rest) : 0);
  }

 private:
  friend RowFunctions<WholeLines>;

  // What of a block is sent: one bit for each line.
  struct Chosen {
    T norm[MePropParams::kMostLines];  // squared, of the elements times a power of two
    std::uint32_t bits[MePropParams::kMostLines / kLanes];
    std::uint64_t nonfinite = 0;
    MQ_INLINE Chosen() {}  // arrays are not set
    MQ_INLINE bool has(std::size_t i) const { return (bits[i / kLanes] >> (i % kLanes) & 1) != 0; }
  };

  template <class Visit>
  static MQ_INLINE void for_each_group(std::size_t n, const Visit& visit) {
    for (std::size_t g = 0; g < n / kLanes; ++g) visit(g, Whole{});
    if (n % kLanes) visit(n / kLanes, Part{n % kLanes});
  }

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const MePropParams p(a.params);
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += p.block()) {
      const std::size_t n = std::min(p.block(), a.n - begin);
      const auto source = Source<T, F>::at(a, begin);
      Chosen chosen;
      measure(source, n, p, chosen);
      std::byte* const wire = a.wire + result.bytes;
      if (chosen.nonfinite > 0) {
        result.bytes += write_marks(elements_of(source), n, a.residual != nullptr, wire);
        std::memset(chosen.bits, 0, sizeof chosen.bits);
      } else {
        choose(n, p, chosen);
        result.bytes += write_lines(elements_of(source), n, p, chosen, wire);
      }
      if constexpr (F != Feedback::none) keep(source, n, p, chosen);
      result.nonfinite += chosen.nonfinite;
    }
    return result;
  }
  // v: with carry it has replaced the residual.
  template <Feedback F>
  static MQ_INLINE const std::byte* elements_of(const Source<T, F>& source) {
    return F == Feedback::carry ? source.residual : source.x;
  }

  // The norms of the lines, if all elements are finite. Elements are multiplied by a power of two, so that
  // squares neither overflow nor vanish.
  template <Feedback F>
  static void measure(const Source<T, F>& source, std::size_t n, const MePropParams& p, Chosen& chosen) {
    L most = L::all(T{0});
    for_each_group(
        n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          source.ask(g);
          const L v = source.v(g, width);
          if constexpr (F == Feedback::carry) v.store(source.residual + g * kGroupBytes, width);
          const auto finite = v.finite();
          most = L::greatest_magnitude(most, L::select(finite, v, L::all(T{0})));
          chosen.nonfinite += static_cast<std::uint64_t>(std::popcount(~finite.bits() & width.bits));
        });
    constexpr int kLimit = std::numeric_limits<T>::max_exponent - 2;
    const T greatest = most.greatest_of_lanes();
    const int exponent = greatest > 0 ? std::clamp(std::ilogb(greatest), -kLimit, kLimit) : 0;
    const L scale = L::all(std::ldexp(T{1}, -exponent));
    for (std::size_t i = 0; i < p.lines_of(n); ++i) {
      const std::byte* const v = elements_of(source) + i * p.line * sizeof(T);
      L sum = L::all(T{0});
      for_each_group(
          std::min(p.line, n - i * p.line), [&](std::size_t g, auto width) __attribute__((always_inline)) {
            const L scaled = L::load(v + g * kGroupBytes, width) * scale;
            sum = sum + scaled * scaled;
          });
      chosen.norm[i] = static_cast<T>(SplitSum<T, false>::total(sum));
    }
  }

  // The lines with the greatest norms.
  static void choose(std::size_t n, const MePropParams& p, Chosen& chosen) {
    const auto* const norms = reinterpret_cast<const std::byte*>(chosen.norm);
    const std::size_t lines = p.lines_of(n), most = p.most(n);
    if (most == lines) {
      std::memset(chosen.bits, 0, sizeof chosen.bits);
      for (std::size_t i = 0; i < lines; ++i) chosen.bits[i / kLanes] |= 1u << (i % kLanes);
      return;
    }
    Cutoff<T> cutoff{T{0}, 0};
    if (!find_cutoff<T>(norms, lines, kBoth, most, 0, kMaxKey<T>, cutoff))
      cutoff = {T{0}, 0};  // fewer are not 0
    for_each_group(
        lines, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          chosen.bits[g] = passing(L::load(norms + g * kGroupBytes, width), width.bits, cutoff);
        });
  }

  static std::byte* put_format(MePropFormat format, std::byte* wire) {
    std::memcpy(wire, &format, sizeof format);
    return wire + sizeof format;
  }

  static std::size_t write_lines(const std::byte* v, std::size_t n, const MePropParams& p,
                                 const Chosen& chosen, std::byte* wire) {
    const std::size_t lines = p.lines_of(n);
    std::byte* out = put_format(kLines, wire);
    std::memcpy(out, chosen.bits, (lines + 7) / 8);
    out += (lines + 7) / 8;
    for (std::size_t i = 0; i < lines; ++i) {
      if (!chosen.has(i)) continue;
      const std::size_t bytes = std::min(p.line, n - i * p.line) * sizeof(T);
      std::memcpy(out, v + i * p.line * sizeof(T), bytes);
      out += bytes;
    }
    return static_cast<std::size_t>(out - wire);
  }

  static std::size_t write_marks(const std::byte* v, std::size_t n, bool has_residual, std::byte* wire) {
    std::byte* out = put_format(has_residual ? kKept : kLost, wire);
    const T mark = nonfinite_of<T>(v, n).mark;
    std::memcpy(out, &mark, sizeof mark);
    out += sizeof mark;
    for_each_group(
        n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          store_bits(out + g * 4, ~L::load(v + g * kGroupBytes, width).finite().bits() & width.bits, width);
        });
    return static_cast<std::size_t>(out - wire) + (n + 7) / 8;
  }

  // What is sent leaves the residual; all else stays.
  template <Feedback F>
  static void keep(const Source<T, F>& source, std::size_t n, const MePropParams& p, const Chosen& chosen) {
    for (std::size_t i = 0; i < p.lines_of(n); ++i) {
      const std::size_t at = i * p.line, length = std::min(p.line, n - at), offset = at * sizeof(T);
      const Source<T, F> line{source.x + offset, source.residual + offset};
      const bool sent = chosen.has(i);
      for_each_group(
          length, [&](std::size_t g, auto width) __attribute__((always_inline)) {
            const L v = L::load(elements_of(line) + g * kGroupBytes, width), zero = L::all(T{0});
            line.keep(g, sent ? zero : L::select(v.finite(), v, zero), width);
          });
    }
  }

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool) {
    const MePropParams p(a.params);
    const auto block = [&p](const std::byte* wire, std::size_t left, const std::byte* base, std::byte* x,
                            std::size_t n, const Params&, bool) -> std::size_t {
      std::uint32_t format;
      if (left < sizeof format) return 0;
      std::memcpy(&format, wire, sizeof format);
      const std::size_t used =
          format == kLines ? read_lines<kAdd>(wire + sizeof format, left - sizeof format, base, x, n, p)
          : format <= kLost
              ? read_marks<kAdd>(wire + sizeof format, left - sizeof format, format == kLost, base, x, n)
              : 0;
      return used == 0 ? 0 : sizeof format + used;
    };
    return decode_blocks<T>(a, p.block(), block);
  }

  // Return the bytes that were read, or 0 if encode cannot have written them.
  template <bool kAdd>
  static std::size_t read_lines(const std::byte* wire, std::size_t left, const std::byte* base, std::byte* x,
                                std::size_t n, const MePropParams& p) {
    const std::size_t lines = p.lines_of(n), head = (lines + 7) / 8;
    if (left < head) return 0;
    if (lines % 8 != 0 && std::to_integer<unsigned>(wire[head - 1]) >> lines % 8 != 0) return 0;
    const auto is_sent = [&](std::size_t i) {
      return (std::to_integer<unsigned>(wire[i / 8]) >> i % 8 & 1) != 0;
    };
    std::size_t sent = 0, at = head;
    for (std::size_t i = 0; i < lines; ++i) sent += is_sent(i);
    if (sent > p.most(n)) return 0;
    for (std::size_t i = 0; i < lines; ++i) {
      const std::size_t length = std::min(p.line, n - i * p.line), offset = i * p.line * sizeof(T);
      if (is_sent(i)) {
        if (left - at < length * sizeof(T)) return 0;
        for_each_group(
            length, [&](std::size_t g, auto width) __attribute__((always_inline)) {
              const L v = L::load(wire + at + g * kGroupBytes, width);
              sum_of<kAdd>(kAdd ? base + offset : nullptr, g, v, width)
                  .store(x + offset + g * kGroupBytes, width);
            });
        at += length * sizeof(T);
      } else if (!kAdd) {
        std::memset(x + offset, 0, length * sizeof(T));
      } else if (base != x) {
        std::memcpy(x + offset, base + offset, length * sizeof(T));
      }
    }
    return at;
  }

  template <bool kAdd>
  static std::size_t read_marks(const std::byte* wire, std::size_t left, bool lost, const std::byte* base,
                                std::byte* x, std::size_t n) {
    T mark;
    if (left < sizeof mark + (n + 7) / 8) return 0;
    std::memcpy(&mark, wire, sizeof mark);
    if (std::isfinite(mark)) return 0;
    const T rest = lost ? std::numeric_limits<T>::quiet_NaN() : T{0};
    const std::byte* const bitmap = wire + sizeof mark;
    if (n % 8 != 0 && std::to_integer<unsigned>(bitmap[n / 8]) >> n % 8 != 0) return 0;
    for_each_group(
        n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          const L v = L::pick(load_bits(bitmap + g * 4, width), mark, rest);
          sum_of<kAdd>(base, g, v, width).store(x + g * kGroupBytes, width);
        });
    return sizeof mark + (n + 7) / 8;
  }
};

struct MeProp {
  static constexpr std::string_view kName = "meprop";
  static constexpr std::string_view kWhat =
      "the lines of a matrix with the greatest norms (meProp, Sun et al. 2017)";
  static constexpr std::uint16_t kId = 24;
  static constexpr bool kLossless = false;
  static constexpr bool kMarksBlocks = true;
  template <class T>
  using Family = WholeLines<T>;

  // Parameters.
  static constexpr std::array kSpecs{
      ParamSpec{"k", "share of the lines that is sent", ParamKind::real, 0.05, 1e-3, 1},
      ParamSpec{"lines", "that are compared with one another", ParamKind::integer, 64, 1,
                MePropParams::kMostLines},
      ParamSpec{"rows", "elements of a line; 0: 64", ParamKind::integer, 0, 0, 0x1p31},
      ParamSpec{"ld", "from line to line in elements; 0: rows", ParamKind::integer, 0, 0, 0x1p31}};

  // Wire format.
  static std::size_t block(const Params& p) { return MePropParams(p).block(); }

  // Bounds.
  // The line with the greatest norm is sent.
  static constexpr bool contraction(const Params&) { return true; }
};
