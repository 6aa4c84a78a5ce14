// The loops of ternary codecs: every element of a block decodes to 0, to the block's value for elements below
// 0, or to its value for elements above 0. Included once per instruction set, after dense-inl.hpp.
//
// A ternary codec has kName, kWhat, kId, kLossless, kSpecs, block(params), Family = Ternary, and
//
//   first_floor, next_floor   the floor for candidates in the first block, and in the next block
//   select                    which elements of a block are sent (select-inl.hpp)
//   kMeans                    true: a side's value is the mean of its sent elements; false: value() gives it
//   format                    the requested format
//
// Encode handles a block of at most 65536 elements, which stays in L2, in three steps:
//
// - One pass replaces the residual by v = x + residual and lists the positions of the candidates.
// - The selection among the candidates is made.
// - Passes over the entries alone drop the other candidates, sum the sides, write the wire, and correct the
//   residual.
//
// Memory traffic for floats is 12 bytes per element plus the wire. Blocks that send more than a quarter of
// their elements, or hold a NaN or Inf, are dense: two more passes in L2 replace the last step.
//
// The mean of a side minimises the squared error for the given entries:
//   |v - decoded|^2 = |v|^2 - n_below below^2 - n_above above^2
// The residuals of a side's entries sum to 0.
#pragma once
#include "kernels/host/loops-inl.hpp"
#include "kernels/ternary/dense-inl.hpp"
#include "kernels/ternary/wire-inl.hpp"

template <class T, class Q>
struct Ternary : SparseBlocks<T, Q, Ternary<T, Q>> {
  using L = Lanes<T>;
  using Header = TernaryHeader<T>;
  using Dense = TernaryDense<T>;

  // See wire-inl.hpp.
  static constexpr std::size_t block_bound(std::size_t n, const Params&) {
    return sizeof(Header) + sizeof(T) + dense_bytes(n);
  }

  // Returns the number of bytes written.
  template <Feedback F>
  static std::size_t encode_block(Candidates<T>& block, const Selection<T>& selection, std::byte* residual,
                                  const Params& params, std::byte* wire, std::uint64_t& nonfinite) {
    // The choice depends on the entries alone. It must not depend on the number of candidates, because that
    // depends on the previous block.
    Entries entries;
    std::size_t marks = 0;
    bool listed = block.listed();
    if (listed)
      marks = Keep<T>::selected(block, selection, entries);
    else
      listed = Keep<T>::unlisted(block, selection, entries, marks);
    if (!listed || marks > 0) return encode_dense<F>(block, selection, residual, params, wire, nonfinite);
    entries.skips = skips_of<true>(entries);
    const TernaryFormat format = choose_format(Q::format(params), entries.count, entries.skips, block.n);
    if (format == TernaryFormat::dense)
      return encode_dense<F>(block, selection, residual, params, wire, nonfinite);
    const std::size_t bytes = sparse_bytes(format, entries.count, entries.skips);
    Header header = fixed_values(params);
    if constexpr (Q::kMeans) {
      SideSums sums = sum_entries(block, entries, 1);
      if (!sums.finite()) sums = sum_entries(block, entries, kHugeScale);
      header = Header(sums.template mean<T>(kBelow), sums.template mean<T>(kAbove));
    }
    header.set(format, entries.count, bytes);
    std::memcpy(wire, &header, sizeof header);
    put_sparse(format, entries, wire + sizeof header);
    if constexpr (F == Feedback::carry) correct_carried(block, residual, entries, header.value);
    if constexpr (F == Feedback::deposit)
      Deposit<T, LossOf>::all(block.v, block.n, residual, entries, LossOf{header.value});
    return sizeof header + bytes;
  }

  // Returns the size of the block in bytes, or 0 if it is malformed.
  static std::size_t decode_block(const std::byte* wire, std::size_t left, const std::byte* base,
                                  std::byte* x, std::size_t n, const Params&, bool stream) {
    if (left < sizeof(Header)) return 0;
    Header header;
    std::memcpy(&header, wire, sizeof header);
    const std::byte* const payload = wire + sizeof header;
    const std::size_t bytes = header.payload_bytes;
    if (bytes > left - sizeof header || !header.valid()) return 0;
    const bool decoded = header.format() < TernaryFormat::dense
                             ? decode_entries<T>(Walk{header, payload, n}, base, x, n, stream)
                             : decode_dense(header, payload, base, x, n);
    return decoded ? sizeof header + bytes : 0;
  }

 private:
  static MQ_INLINE Header fixed_values(const Params& params) {
    if constexpr (Q::kMeans) {
      return Header();
    } else {
      const T value = Q::template value<T>(params);
      return Header(-value, value);
    }
  }

  static SideSums sum_entries(const Candidates<T>& block, const Entries& entries, double scale) {
    SideSums sums(scale);
    for (std::size_t i = 0; i < entries.count; ++i) {
      const std::uint32_t position = entries.entry[i] >> 1, sign = entries.entry[i] & 1;
      sums.part[sign][position % SideSums::kParts] +=
          static_cast<double>(block.value_of(i, position)) * scale;
      sums.count[kAbove] += sign;
    }
    sums.count[kBelow] = entries.count - sums.count[kAbove];
    return sums;
  }

  // The residual holds v. For entries it becomes v - decoded.
  static void correct_carried(const Candidates<T>& block, std::byte* residual, const Entries& entries,
                              const T (&value)[2]) {
    for (std::size_t i = 0; i < entries.count; ++i) {
      const std::uint32_t position = entries.entry[i] >> 1;
      set_element<T>(residual, position, block.value_of(i, position) - value[entries.entry[i] & 1]);
    }
  }

  struct LossOf {
    const T (&value)[2];
    MQ_INLINE T operator()(std::uint32_t entry, T v) const { return v - value[entry & 1]; }
  };

  template <Feedback F>
  static std::size_t encode_dense(const Candidates<T>& block, const Selection<T>& selection,
                                  std::byte* residual, const Params& params, std::byte* wire,
                                  std::uint64_t& nonfinite) {
    std::byte* codes = wire + sizeof(Header);
    const std::size_t n = block.n;
    const TernaryCounts counts = Dense::put(block.v, n, selection, codes);
    Header header = fixed_values(params);
    if constexpr (Q::kMeans) {
      SideSums sums = Dense::sum(block.v, n, codes, 1);
      if (!sums.finite()) sums = Dense::sum(block.v, n, codes, kHugeScale);
      header = Header(sums.template mean<T>(kBelow), sums.template mean<T>(kAbove));
    }
    header.set(TernaryFormat::dense, counts.entries, dense_bytes(n));
    if (counts.marks > 0) {
      std::memmove(codes + sizeof(T), codes, dense_bytes(n));
      const T mark = nonfinite_of<T>(block.v, n).mark;
      std::memcpy(codes, &mark, sizeof mark);
      codes += sizeof mark;
      header.set(TernaryFormat::marked, counts.entries, sizeof mark + dense_bytes(n));
      nonfinite += counts.marks;
    }
    std::memcpy(wire, &header, sizeof header);
    if constexpr (F != Feedback::none) Dense::template correct<F>(block.v, n, residual, codes, header.value);
    return sizeof header + header.payload_bytes;
  }

  // Visits the entries of a sparse payload.
  struct Walk {
    const Header& header;
    const std::byte* payload;
    std::size_t n;
    template <class Sink>
    struct OfSides {
      Sink& sink;
      const T (&value)[2];
      MQ_INLINE void operator()(std::size_t i, std::uint32_t sign) const { sink(i, value[sign]); }
    };
    template <class Sink>
    MQ_INLINE bool operator()(Sink& sink) const {
      OfSides<Sink> visit{sink, header.value};
      return visit_sparse(header.format(), payload, header.payload_bytes, header.count(), n, visit);
    }
  };

  static bool decode_dense(const Header& header, const std::byte* payload, const std::byte* base,
                           std::byte* x, std::size_t n) {
    const bool marked = header.format() == TernaryFormat::marked;
    const std::size_t mark_bytes = marked ? sizeof(T) : 0;
    if (header.payload_bytes != mark_bytes + dense_bytes(n)) return false;
    T mark{0};
    std::memcpy(&mark, payload, mark_bytes);
    const std::byte* const codes = payload + mark_bytes;
    if (std::isfinite(mark) == marked || !Dense::valid(codes, n, header.count(), marked)) return false;
    if (base == nullptr)
      Dense::template decode<false>(codes, n, header.value, mark, base, x);
    else
      Dense::template decode<true>(codes, n, header.value, mark, base, x);
    return true;
  }
};
