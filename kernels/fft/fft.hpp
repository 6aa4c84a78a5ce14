// fft: the greatest coefficients of the Fourier transform of a chunk, as small floats (Wang, Wu, Feng,
// Vishwanath, Xiao: FFT-based gradient sparsification for the distributed training of deep neural networks,
// HPDC 2020). What is not sent is spread over all elements of the chunk.
//
// A chunk of L elements has L / 2 + 1 complex coefficients. The ceil(keep (L / 2 + 1)) with the most energy
// are sent; those but the first and the last count twice, as in Parseval's theorem. Ties: the lowest index
// first. Fewer if fewer are not 0. Their real and imaginary parts are floats of `bits` bits, `man` of which
// are mantissa, whose range ends at the greatest part of the chunk (kernels/patterns/range.hpp). With bits=32
// they are numbers of the element type. The last chunk may be shorter: zeros are added up to the next power
// of two, at least 16; fewer than 16 elements are sent as they are.
//
// The paper adds the ranks' coefficients, and transforms the sum back once. Here each rank's chunk is
// transformed back and then added. The transform is linear, so this differs by roundings only.
//
// A chunk with NaN or Inf, or with magnitudes of 2^126 or more (doubles: 2^1022), whose errors might
// overflow, sends marks: its finite elements stay in the residual, or decode to NaN without one. If
// magnitudes are the cause, encode counts those elements that are too large or, without a residual, all of
// the chunk.
//
// Wire, per chunk: FftHeader, and by its format
//
//   plain         the elements
//   coefficients  the top of the range, of the size of an element, if bits < 32; a bit for each coefficient,
//                 1 if it is sent; the parts, in groups of 32 as in host/packed-inl.hpp; the parts of an
//                 incomplete group take a byte each
//   kept, lost    the value of elements that are not finite; a bit for each element, 1 for those. The others
//                 decode to 0 (kept) or NaN (lost)
//
// At the presets that is 0.215 bytes per float: 1 / 16 for the bits, 0.15 for the parts, 8 bytes for the
// rest.
#pragma once
#include "kernels/fft/chunk-inl.hpp"

template <class T>
struct Ffts : RowFunctions<Ffts<T>> {
  static constexpr bool kFixedSize = false;
  using L = Lanes<T>;

  // An upper bound.
  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    const FftParams p(params);
    const std::size_t rest = n % p.chunk;
    return n / p.chunk * p.template bound<T>(p.chunk) + (rest ? p.template bound<T>(rest) : 0);
  }

 private:
  friend RowFunctions<Ffts>;

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const FftParams p(a.params);
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += p.chunk) {
      const std::size_t n = std::min(p.chunk, a.n - begin);
      const auto source = Source<T, F>::at(a, begin);
      FftChunk<T> chunk(p, n);
      const std::size_t nonfinite = chunk.read(source);
      result.nonfinite += nonfinite;
      if (nonfinite == 0) result.overflows += chunk.overflows(a.residual != nullptr);
      result.bytes += chunk.write(a.wire + result.bytes, a.residual != nullptr, F != Feedback::none);
      if constexpr (F == Feedback::none) continue;
      const auto keep = [&](std::size_t g, auto width) __attribute__((always_inline)) {
        const L v = L::load(chunk.v() + g * kLanes * sizeof(T), width);
        const L error = v - L::load(chunk.decoded() + g * kLanes * sizeof(T), width);
        source.keep(g, L::select(v.finite(), error, L::all(T{0})), width);
      };
      for (std::size_t g = 0; g < n / kLanes; ++g) keep(g, Whole{});
      if (n % kLanes) keep(n / kLanes, Part{n % kLanes});
    }
    return result;
  }

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool) {
    const FftParams p(a.params);
    const auto block = [&p](const std::byte* wire, std::size_t left, const std::byte* base, std::byte* x,
                            std::size_t n, const Params&, bool) -> std::size_t {
      FftChunk<T> chunk(p, n);
      const std::size_t used = chunk.read_wire(wire, left);
      if (used == 0) return 0;
      const auto put = [&](std::size_t g, auto width) __attribute__((always_inline)) {
        const L decoded = L::load(chunk.decoded() + g * kLanes * sizeof(T), width);
        sum_of<kAdd>(base, g, decoded, width).store(x + g * kLanes * sizeof(T), width);
      };
      for (std::size_t g = 0; g < n / kLanes; ++g) put(g, Whole{});
      if (n % kLanes) put(n / kLanes, Part{n % kLanes});
      return used;
    };
    return decode_blocks<T>(a, p.chunk, block);
  }
};

struct Fft {
  static constexpr std::string_view kName = "fft";
  static constexpr std::string_view kWhat =
      "the greatest Fourier coefficients of a chunk, as small floats (Wang et al. 2020)";
  static constexpr std::uint16_t kId = 23;
  static constexpr bool kLossless = false;
  static constexpr bool kMarksBlocks = true;
  template <class T>
  using Family = Ffts<T>;

  // Parameters.
  static constexpr std::array kSpecs{
      ParamSpec{"keep", "share of the coefficients that is sent", ParamKind::real, 0.15, 1e-3, 1},
      ParamSpec{"bits", "of a real or imaginary part: 4 to 8, or 32 for all", ParamKind::integer, 8, 4, 32},
      ParamSpec{"man", "bits of mantissa", ParamKind::integer, 3, 1, 5, {}, "bits", 32},
      ParamSpec{"chunk", "elements that are transformed together", ParamKind::power_of_two, 4096, 64, kTurn}};
  static constexpr std::string_view conflict(const Params& p) {
    return p.value[1] > 8 && p.value[1] < 32 ? "bits is 4 to 8, or 32" : "";
  }

  // Wire format.
  static constexpr std::size_t block(const Params& p) { return static_cast<std::size_t>(p.value[3]); }

  // Bounds.
  // The coefficient with the most energy is sent, and no part's rounding exceeds the part.
  static constexpr bool contraction(const Params&) { return true; }
};
