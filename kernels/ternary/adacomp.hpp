// adacomp: sends the elements of a bin that the newest vector pushes to the bin's greatest magnitude, all
// with one magnitude (Chen, Choi, Brand, Agrawal, Zhang, Gopalakrishnan: AdaComp, AAAI 2018). How many pass
// adapts itself: no sorting, no count.
//
//   G = x + residual    H = G + x
//   m = max |G| of the bin's elements    S = mean of m over the bins of a block
//   sent: sign(G) S, where |H| >= m > 0 and |G| >= S / 2
//
// The paper has one S for a layer; here each block has its own, so that blocks can be encoded one by one. |G|
// >= S / 2 is not in the paper either: without it, a bin of small elements beside bins of great ones would
// decode to much more than it holds. With it no element's error exceeds the element, as error feedback needs,
// and the number of elements sent stays about the same. Without a residual, G = x and H = 2 x: the elements
// of at least half of the bin's greatest magnitude are sent. The same holds for sums, whose losses are added
// to the residual.
//
// NaN and Inf elements are sent in addition, all with the same value.
//
// Wire, per block: AdaCompHeader<T> and the payload, one of
//
//   entries  Bin after bin: one entry for each element that is sent, ascending. An entry is its position in
//            the bin, a bit that is 1 for +S, and a bit that is 1 for the last of the bin. A bin without
//            elements has one entry with the greatest position and sign 0. One byte (6 bits of position) for
//            bins of at most 63 elements, else two (14 bits).
//   dense    Two bits for each element, if entries would not be shorter (ternary/dense-inl.hpp): n / 4 bytes.
//   marked   The value of the elements that are not finite, then dense; these have both bits set.
//
// So a block takes at most its header, sizeof(T) and n / 4 bytes.
#pragma once
#include "kernels/ternary/adacomp_format-inl.hpp"
#include "kernels/ternary/host-inl.hpp"

template <class T>
struct Bins : RowFunctions<Bins<T>> {
  static constexpr bool kFixedSize = false;
  using L = Lanes<T>;
  using Header = AdaCompHeader<T>;
  using Dense = TernaryDense<T>;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);

  // An upper bound.
  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    const std::size_t block = AdaCompParams(params).block, rest = n % block;
    return n / block * block_bound(block) + (rest ? block_bound(rest) : 0);
  }

 private:
  friend RowFunctions<Bins>;
  static constexpr std::size_t block_bound(std::size_t n) {
    return sizeof(Header) + sizeof(T) + dense_bytes(n);
  }

  // What of a block is sent: one bit for each element, and for those above 0.
  struct Sent {
    T scale{0};
    std::size_t count = 0, empty = 0, nonfinite = 0;  // elements, bins, elements
    std::uint32_t above[kMaxSparseBlock / kLanes + 2], below[kMaxSparseBlock / kLanes + 2];
    T most[kMaxSparseBlock / 8];  // of each bin
    MQ_INLINE Sent() {}           // arrays are not set
  };

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const AdaCompParams p(a.params);
    Encoded result;
    Sent sent;
    for (std::size_t begin = 0; begin < a.n; begin += p.block) {
      const std::size_t n = std::min(p.block, a.n - begin);
      const auto source = Source<T, F>::at(a, begin);
      sent.nonfinite = collect(source, n);
      const std::byte* const v = F == Feedback::carry ? source.residual : source.x;
      measure(v, n, p, sent);
      choose<F>(source.x, v, n, p, sent);
      std::byte* const wire = a.wire + result.bytes;
      const std::size_t bytes = (sent.count + sent.empty) * p.entry;
      if (sent.nonfinite > 0 || bytes >= dense_bytes(n)) {
        result.bytes += write_dense<F>(source, v, n, sent, wire);
      } else {
        const Header header(AdaCompFormat::entries, bytes, sent.scale);
        std::memcpy(wire, &header, sizeof header);
        write_entries(sent, n, p, wire + sizeof header);
        keep<F>(source, v, n, sent);
        result.bytes += sizeof header + bytes;
      }
      result.nonfinite += sent.nonfinite;
    }
    return result;
  }

  // With carry, v = x + residual replaces the residual. Returns the number of elements that are not finite.
  template <Feedback F>
  static std::size_t collect(const Source<T, F>& source, std::size_t n) {
    std::size_t nonfinite = 0;
    const auto add = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      source.ask(g);
      const L v = source.v(g, width);
      if constexpr (F == Feedback::carry) v.store(source.residual + g * kGroupBytes, width);
      nonfinite += static_cast<std::size_t>(std::popcount(~v.finite().bits() & width.bits));
    };
    for (std::size_t g = 0; g < n / kLanes; ++g) add(g, Whole{});
    if (n % kLanes) add(n / kLanes, Part{n % kLanes});
    return nonfinite;
  }

  // Calls visit(position, lanes of v, lanes of x, bits) for all elements of a bin, 32 at a time or fewer.
  // Lanes whose bit is 0 belong to others.
  template <class Visit>
  static MQ_INLINE void for_each_part(const std::byte* x, const std::byte* v, std::size_t begin,
                                      std::size_t end, std::size_t n, const Visit& visit) {
    for (std::size_t at = begin; at < end; at += kLanes) {
      const std::size_t count = std::min<std::size_t>(kLanes, end - at), offset = at * sizeof(T);
      const std::uint32_t bits = count == kLanes ? Whole::bits : (1u << count) - 1;
      if (at + kLanes <= n)
        visit(at, L::load(v + offset, Whole{}), L::load(x + offset, Whole{}), bits);
      else
        visit(at, L::load(v + offset, Part{n - at}), L::load(x + offset, Part{n - at}), bits);
    }
  }

  // The greatest magnitude of each bin, and their mean. The terms of the sum are divided one by one, so that
  // it stays finite.
  static void measure(const std::byte* v, std::size_t n, const AdaCompParams& p, Sent& sent) {
    constexpr double kMax = static_cast<double>(std::numeric_limits<T>::max());
    const auto bins = static_cast<double>(p.bins(n));
    double mean = 0;
    for (std::size_t begin = 0, b = 0; begin < n; begin += p.bin, ++b) {
      L most = L::all(T{0});
      for_each_part(
          v, v, begin, std::min(n, begin + p.bin),
          n, [&](std::size_t, const L& lanes, const L&, std::uint32_t bits) __attribute__((always_inline)) {
            const std::uint32_t counts = lanes.finite().bits() & bits;
            most = L::greatest_magnitude(most, L::select(L::mask_of(counts), lanes, L::all(T{0})));
          });
      sent.most[b] = most.greatest_of_lanes();
      mean += static_cast<double>(sent.most[b]) / bins;
    }
    sent.scale = static_cast<T>(std::min(mean, kMax));
  }

  template <Feedback F>
  static void choose(const std::byte* x, const std::byte* v, std::size_t n, const AdaCompParams& p,
                     Sent& sent) {
    const std::size_t words = n / kLanes + 2;  // bits are added 64 at a time
    std::memset(sent.above, 0, words * sizeof(std::uint32_t));
    std::memset(sent.below, 0, words * sizeof(std::uint32_t));
    sent.count = sent.empty = 0;
    const T half = sent.scale / 2, least = half > 0 ? half : sent.scale;
    for (std::size_t begin = 0, b = 0; begin < n; begin += p.bin, ++b) {
      const std::size_t before = sent.count;
      if (sent.most[b] >= least && least > 0)
        choose_in_bin<F>(x, v, begin, std::min(n, begin + p.bin), n, sent.most[b], least, sent);
      sent.empty += sent.count == before;
    }
  }

  template <Feedback F>
  static MQ_INLINE void choose_in_bin(const std::byte* x, const std::byte* v, std::size_t begin,
                                      std::size_t end, std::size_t n, T most, T least, Sent& sent) {
    const L bound = L::all(most), half = L::all(least), zero = L::all(T{0});
    for_each_part(
        x, v, begin, end, n,
        [&](std::size_t at, const L& g, const L& newest, std::uint32_t bits) __attribute__((always_inline)) {
          const L h = g + (F == Feedback::carry ? newest : g);
          bits &= h.abs().at_least(bound).bits() & g.abs().at_least(half).bits() & g.finite().bits();
          if (bits == 0) return;
          const std::uint32_t positive = g.at_least(zero).bits();
          add_bits(sent.above, at, bits & positive);
          add_bits(sent.below, at, bits & ~positive);
          sent.count += static_cast<std::size_t>(std::popcount(bits));
        });
  }
  static MQ_INLINE void add_bits(std::uint32_t* words, std::size_t at, std::uint32_t bits) {
    std::uint64_t both;
    std::memcpy(&both, words + at / kLanes, sizeof both);
    both |= std::uint64_t{bits} << (at % kLanes);
    std::memcpy(words + at / kLanes, &both, sizeof both);
  }

  static void write_entries(const Sent& sent, std::size_t n, const AdaCompParams& p, std::byte* out) {
    std::uint32_t waiting = p.none();  // an entry that may be the last of its bin; the entry of an empty bin
    bool some = false;
    std::size_t begin = 0;
    const auto put = [&](std::uint32_t entry) {
      p.put(entry, out);
      out += p.entry;
    };
    const auto next_bin = [&] {
      put(waiting | p.last());
      waiting = p.none();
      some = false;
      begin += p.bin;
    };
    for (std::size_t g = 0; g * kLanes < n; ++g)
      for (std::uint32_t bits = sent.above[g] | sent.below[g]; bits != 0; bits &= bits - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(bits));
        while (g * kLanes + lane - begin >= p.bin) next_bin();
        if (some) put(waiting);
        waiting = static_cast<std::uint32_t>(g * kLanes + lane - begin) |
                  ((sent.above[g] >> lane & 1) != 0 ? p.above() : 0);
        some = true;
      }
    while (begin < n) next_bin();
  }

  // What was lost. With carry, the residual holds v, and only elements that are sent change.
  template <Feedback F>
  static void keep(const Source<T, F>& source, const std::byte* v, std::size_t n, const Sent& sent) {
    if constexpr (F == Feedback::carry) {
      const T value[2]{-sent.scale, sent.scale};
      for (std::size_t g = 0; g * kLanes < n; ++g)
        for (std::uint32_t bits = sent.above[g] | sent.below[g]; bits != 0; bits &= bits - 1) {
          const auto lane = static_cast<std::size_t>(std::countr_zero(bits)), i = g * kLanes + lane;
          set_element<T>(source.residual, i, element<T>(v, i) - value[sent.above[g] >> lane & 1]);
        }
    } else if constexpr (F == Feedback::deposit) {
      const auto add = [&](std::size_t g, auto width) __attribute__((always_inline)) {
        const L low = L::pick(sent.below[g], -sent.scale, T{0});
        const L sends = L::select(L::mask_of(sent.above[g]), L::all(sent.scale), low);
        source.keep(g, L::load(v + g * kGroupBytes, width) - sends, width);
      };
      for (std::size_t g = 0; g < n / kLanes; ++g) add(g, Whole{});
      if (n % kLanes) add(n / kLanes, Part{n % kLanes});
    }
  }

  // Two bits for each element, and NaN and Inf. Rare, so the code is simple. Returns the number of bytes
  // written.
  template <Feedback F>
  static std::size_t write_dense(const Source<T, F>& source, const std::byte* v, std::size_t n,
                                 const Sent& sent, std::byte* wire) {
    const bool marked = sent.nonfinite > 0;
    const Header header(marked ? AdaCompFormat::marked : AdaCompFormat::dense, sent.count, sent.scale);
    std::memcpy(wire, &header, sizeof header);
    std::byte* codes = wire + sizeof header;
    if (marked) {
      const T mark = nonfinite_of<T>(v, n).mark;
      std::memcpy(codes, &mark, sizeof mark);
      codes += sizeof mark;
    }
    const auto write = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      const std::uint32_t marks = ~L::load(v + g * kGroupBytes, width).finite().bits() & width.bits;
      Dense::store(codes, g, {sent.above[g] | marks, sent.below[g] | marks}, width);
    };
    for (std::size_t g = 0; g < n / kLanes; ++g) write(g, Whole{});
    if (n % kLanes) write(n / kLanes, Part{n % kLanes});
    const T value[2]{-sent.scale, sent.scale};
    if constexpr (F != Feedback::none) Dense::template correct<F>(v, n, source.residual, codes, value);
    return static_cast<std::size_t>(codes - wire) + dense_bytes(n);
  }

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool) {
    return decode_blocks<T>(a, AdaCompParams(a.params).block, &decode_block);
  }

  // Returns the size of the block in bytes, or 0 if it is malformed.
  static std::size_t decode_block(const std::byte* wire, std::size_t left, const std::byte* base,
                                  std::byte* x, std::size_t n, const Params& params, bool stream) {
    Header header;
    if (left < sizeof header) return 0;
    std::memcpy(&header, wire, sizeof header);
    const T scale = header.scale();
    if (!(scale >= T{0} && scale <= std::numeric_limits<T>::max()) || std::signbit(scale)) return 0;
    const std::byte* payload = wire + sizeof header;
    left -= sizeof header;
    if (header.format() == AdaCompFormat::entries) {
      if (header.size() > left || header.size() >= dense_bytes(n)) return 0;
      const Walk walk{payload, header.size(), n, scale, AdaCompParams(params)};
      return decode_entries<T>(walk, base, x, n, stream) ? sizeof header + header.size() : 0;
    }
    const bool marked = header.format() == AdaCompFormat::marked;
    const std::size_t mark_bytes = marked ? sizeof(T) : 0;
    if (header.format() > AdaCompFormat::marked || left < mark_bytes + dense_bytes(n)) return 0;
    T mark{0};
    std::memcpy(&mark, payload, mark_bytes);
    payload += mark_bytes;
    if (std::isfinite(mark) == marked || !Dense::valid(payload, n, header.size(), marked)) return 0;
    const T value[2]{-scale, scale};
    base ? Dense::template decode<true>(payload, n, value, mark, base, x)
         : Dense::template decode<false>(payload, n, value, mark, base, x);
    return sizeof header + mark_bytes + dense_bytes(n);
  }

  // Visits the entries of a payload. False, perhaps after some visits, if encode cannot have written it.
  struct Walk {
    const std::byte* payload;
    std::size_t bytes, n;
    T scale;
    AdaCompParams p;
    template <class Sink>
    MQ_INLINE bool operator()(Sink& sink) const {
      if (bytes % p.entry != 0) return false;
      const T value[2]{-scale, scale};  // not chosen by a branch: no processor foresees signs
      std::size_t begin = 0, next = 0;  // of the bin; the first position that its next entry may have
      for (std::size_t i = 0; i < bytes; i += p.entry) {
        const std::uint32_t entry = p.get(payload + i);
        const std::size_t position = entry & p.none();
        if (begin >= n) return false;
        if (entry == (p.none() | p.last())) {
          if (next != 0) return false;
        } else {
          if (position < next || position >= std::min(p.bin, n - begin)) return false;
          sink(begin + position, value[(entry & p.above()) != 0]);
          next = position + 1;
        }
        if ((entry & p.last()) == 0) continue;
        begin += p.bin;
        next = 0;
      }
      return begin >= n && next == 0;
    }
  };
};

struct AdaComp {
  static constexpr std::string_view kName = "adacomp";
  static constexpr std::string_view kWhat =
      "elements that reach the greatest of their bin, as one magnitude (AdaComp, Chen et al. 2018)";
  static constexpr std::uint16_t kId = 22;
  static constexpr bool kLossless = false;
  static constexpr Form form(const Params&) { return Form::three_values; }
  template <class T>
  using Family = Bins<T>;

  // Parameters.
  static constexpr std::array kSpecs{
      ParamSpec{"bin", "elements that are compared with one another", ParamKind::integer, 50, 8, 16383},
      ParamSpec{"block", "elements that share a magnitude, a multiple of bin", ParamKind::power_of_two, 16384,
                64, kMaxSparseBlock}};

  // Wire format.
  static constexpr std::size_t block(const Params& p) { return AdaCompParams(p).block; }
};
