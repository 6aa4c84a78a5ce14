// adacomp on a GPU: the device twin of codecs/adacomp-inl.hpp. A thread block codes a block. Elements are read from memory in each
// pass; after the first pass they are in the L2 cache.
//
// The mean of the bins is a sum in double in the order of bins, as on the host: all threads divide, one adds.
#pragma once

#include "kernels/cuda/adacomp.hpp"
#include "kernels/cuda/sparse_decode.cuh"
#include "kernels/cuda/ternary_encode.cuh"

namespace mq::kernels::cuda {

#include "kernels/codecs/adacomp_format-inl.hpp"

template <class T>
struct AdaCompEncoder {
  const Block<T, false> b;
  const AdaCompParams p;
  const std::uint32_t bin, bins;
  std::uint64_t* const most;  // of this block's bins

  MQ_DEVICE AdaCompEncoder(const AdaCompEncodeArgs& a, std::uint32_t number)
      : b(a, number),
        p(a.params),
        bin(static_cast<std::uint32_t>(p.bin)),
        bins(static_cast<std::uint32_t>(p.bins(b.n))),
        most(a.most + std::uint64_t{number} * (a.block / static_cast<std::uint32_t>(p.bin))) {}

  MQ_DEVICE T most_of(std::uint32_t bin_number) const {
    return bits_as<T>(static_cast<Key<T>>(most[bin_number]));
  }

  // Reads the block, and marks elements that are not finite. Returns their number.
  MQ_DEVICE std::uint32_t read() const {
    std::uint32_t nonfinite = 0;
    b.read([&](std::uint32_t w, std::uint32_t, bool exists, T v) {
      const Word marks = ballot(exists && !is_finite(v));
      if (lane() == 0) b.marks[w] = marks;
      nonfinite += count_ones(marks);
    });
    return block_sum(lane() == 0 ? nonfinite : 0);
  }
  // A warp for each bin.
  MQ_DEVICE void measure() const {
    for (std::uint32_t i = warp(); i < bins; i += warps()) {
      const std::uint32_t begin = i * bin, end = smaller(begin + bin, b.n);
      Key<T> greatest = 0;
      for (std::uint32_t e = begin + lane(); e < end; e += 32) {
        const Key<T> key = key_of(b.v(e)) & ~kSignBit<T>;
        if (finite_key<T>(key)) greatest = greater(greatest, key);
      }
      greatest = warp_max(greatest);
      if (lane() == 0) most[i] = greatest;
    }
    barrier();
  }
  MQ_DEVICE T scale() const {
    auto* const terms = reinterpret_cast<double*>(b.pool + reinterpret_cast<std::uintptr_t>(b.pool) % 8);
    auto& mean = shared<double>();
    if (thread() == 0) mean = 0;
    for (std::uint32_t first = 0; first < bins; first += kAdaCompTerms) {
      const std::uint32_t count = smaller(kAdaCompTerms, bins - first);
      for (std::uint32_t i = thread(); i < count; i += threads())
        terms[i] = static_cast<double>(most_of(first + i)) / static_cast<double>(bins);
      barrier();
      if (thread() == 0) {
        double sum = mean;
        MQ_UNROLL(8)
        for (std::uint32_t i = 0; i < count; ++i) sum += terms[i];
        mean = sum;
      }
      barrier();
    }
    constexpr double kMax = static_cast<double>(kMaxMagnitude<T>);
    return static_cast<T>(mean < kMax ? mean : kMax);
  }
  // Sets the bits of the elements that are sent.
  MQ_DEVICE void choose(T scale) const {
    const T half = scale / 2, least = half > 0 ? half : scale;
    for (std::uint32_t w = warp(); w < b.words; w += warps()) {
      const std::uint32_t i = 32 * w + lane();
      bool sent = false, positive = false;
      if (i < b.n && least > 0) {
        const T g = b.v(i), bound = most_of(i / bin);
        const T h = g + (b.feedback == Feedback::carry ? load<T>(b.x + std::size_t{i} * sizeof(T)) : g);
        const T size_g = g < 0 ? -g : g, size_h = h < 0 ? -h : h;
        sent = bound >= least && is_finite(g) && size_h >= bound && size_g >= least;
        positive = g >= 0;
      }
      const Word above = ballot(sent && positive), below = ballot(sent && !positive);
      if (lane() == 0) b.above[w] = above;
      if (lane() == 0) b.below[w] = below;
    }
    barrier();
  }
  MQ_DEVICE Word sent_of(std::uint32_t w) const { return b.above[w] | b.below[w]; }
  // The bits of word w that belong to elements [begin, end).
  static MQ_DEVICE Word within(std::uint32_t w, std::uint32_t begin, std::uint32_t end) {
    const Word from = begin > 32 * w ? ~lanes_below(begin - 32 * w) : kAll;
    return end - 32 * w >= 32 ? from : from & lanes_below(end - 32 * w);
  }
  // Calls f(word, bits) for the elements of a bin that are sent.
  template <class F>
  MQ_DEVICE void each_word(std::uint32_t number, const F& f) const {
    const std::uint32_t begin = number * bin, end = smaller(begin + bin, b.n);
    for (std::uint32_t w = begin / 32; 32 * w < end; ++w) f(w, sent_of(w) & within(w, begin, end));
  }
  // The bins of this thread, and how many entries come before them.
  struct OwnBins {
    std::uint32_t begin, end, before;
  };
  // Returns the number of entries; one for a bin without elements.
  MQ_DEVICE std::uint32_t entries(OwnBins& own) const {
    const std::uint32_t each = (bins + threads() - 1) / threads();
    own.begin = smaller(thread() * each, bins);
    own.end = smaller(own.begin + each, bins);
    std::uint32_t count = 0, all;
    for (std::uint32_t i = own.begin; i < own.end; ++i) {
      std::uint32_t of_bin = 0;
      each_word(i, [&](std::uint32_t, Word bits) { of_bin += count_ones(bits); });
      count += greater(of_bin, 1u);
    }
    own.before = block_before(count, all);
    return all;
  }
  MQ_DEVICE void put_entries(const OwnBins& own, std::byte* out) const {
    const auto entry_bytes = static_cast<std::uint32_t>(p.entry);
    out += std::size_t{own.before} * entry_bytes;
    for (std::uint32_t i = own.begin; i < own.end; ++i) {
      std::uint32_t waiting = p.none();
      bool some = false;
      each_word(i, [&](std::uint32_t w, Word bits) {
        for (; bits != 0; bits &= bits - 1) {
          if (some) p.put(waiting, out), out += entry_bytes;
          const std::uint32_t l = count_trailing_zeros(bits);
          waiting = (32 * w + l - i * bin) | ((b.above[w] >> l & 1) != 0 ? p.above() : 0);
          some = true;
        }
      });
      p.put(waiting | p.last(), out);
      out += entry_bytes;
    }
  }
};

template <class T>
MQ_DEVICE std::uint32_t sent_elements(const AdaCompEncoder<T>& e) {
  std::uint32_t count = 0;
  for (std::uint32_t w = thread(); w < e.b.words; w += threads()) count += count_ones(e.sent_of(w));
  return block_sum(count);
}

template <class T>
MQ_DEVICE void encode_adacomp(const AdaCompEncodeArgs& a) {
  const AdaCompEncoder<T> e(a, take_block(a));
  const Block<T, false>& b = e.b;
  const std::uint32_t nonfinite = e.read();
  e.measure();
  const T scale = e.scale();
  e.choose(scale);
  typename AdaCompEncoder<T>::OwnBins own{};
  const std::uint32_t listed = e.entries(own) * static_cast<std::uint32_t>(e.p.entry);
  const auto dense = static_cast<std::uint32_t>(dense_bytes(b.n));
  const bool marked = nonfinite > 0;
  const bool lists = !marked && listed < dense;
  const std::uint32_t mark_bytes = marked ? sizeof(T) : 0, bytes = lists ? listed : mark_bytes + dense;
  const std::uint32_t length = static_cast<std::uint32_t>(sizeof(AdaCompHeader<T>)) + bytes;
  publish_block(a, b.number, length);
  const AdaCompFormat format = lists    ? AdaCompFormat::entries
                               : marked ? AdaCompFormat::marked
                                        : AdaCompFormat::dense;
  const AdaCompHeader<T> header(format, lists ? bytes : sent_elements(e), scale);
  std::byte* payload = b.pool + sizeof header;
  if (thread() == 0) memcpy(b.pool, &header, sizeof header);
  if (marked) {
    const T mark = mark_value(b);
    if (thread() == 0) memcpy(payload, &mark, sizeof mark);
    payload += sizeof mark;
  }
  if (lists)
    e.put_entries(own, payload);
  else
    put_dense(b, payload);
  correct(b, -scale, scale);
  std::byte* const to = own_wire(a, b.number, length);  // contains a barrier
  copy_out(to, b.pool, length);
  barrier();
  if (thread() == 0) end_block(a, length, nonfinite);
}

template <class T>
struct AdaCompLength {
  static MQ_DEVICE std::uint32_t head(std::uint32_t) { return sizeof(AdaCompHeader<T>); }
  static MQ_DEVICE std::uint64_t of(const std::byte* p, std::uint64_t left, std::uint32_t n, std::uint32_t) {
    constexpr std::uint64_t kHeader = sizeof(AdaCompHeader<T>);
    if (left < kHeader) return 0;
    AdaCompHeader<T> header;
    header.format_size = near_word(p);
    const std::uint64_t dense = dense_bytes(n);
    std::uint64_t bytes = header.size();
    if (header.format() == AdaCompFormat::entries ? bytes >= dense : header.format() > AdaCompFormat::marked)
      return 0;
    if (header.format() != AdaCompFormat::entries)
      bytes = dense + (header.format() == AdaCompFormat::marked ? sizeof(T) : 0);
    return bytes <= left - kHeader ? kHeader + bytes : 0;
  }
  static constexpr std::uint32_t kLook = sizeof(AdaCompHeader<T>);
  static MQ_DEVICE bool likely(const std::byte* p, std::uint32_t n, std::uint32_t) {
    const std::uint32_t format_size = near_word(p), size = format_size & ((1u << 30) - 1);
    const auto format = static_cast<AdaCompFormat>(format_size >> 30);
    const bool fits = format == AdaCompFormat::entries ? size > 0 && size < dense_bytes(n)
                                                       : format <= AdaCompFormat::marked && size <= n;
    return fits && (near_word(p + kLook - 4) >> 31) == 0;  // the scale has no sign
  }
};

template <class T>
MQ_DEVICE void parse_entries(Target<T>& t, const AdaCompParams& p, const std::byte* in, std::uint32_t bytes) {
  const auto entry_bytes = static_cast<std::uint32_t>(p.entry), bin = static_cast<std::uint32_t>(p.bin);
  t.bad = bytes % entry_bytes != 0;
  if (t.bad) return;
  const std::uint32_t count = bytes / entry_bytes, each = (count + threads() - 1) / threads();
  const std::uint32_t first = smaller(thread() * each, count), end = smaller(first + each, count);
  const auto entry_at = [&](std::uint32_t i) { return p.get(in + std::size_t{i} * entry_bytes); };
  const auto is_last = [&](std::uint32_t i) { return (entry_at(i) & p.last()) != 0; };
  std::uint32_t ends = 0, all;
  for (std::uint32_t i = first; i < end; ++i) ends += is_last(i);
  std::uint32_t number = block_before(ends, all);  // of the bin
  t.bad = all != p.bins(t.n) || count == 0 || !is_last(count - 1);
  for (std::uint32_t i = first; i < end; ++i) {
    const std::uint32_t entry = entry_at(i), position = entry & p.none(), begin = number * bin;
    const bool is_first = i == 0 || is_last(i - 1);
    if (begin >= t.n) {
      t.bad = true;
    } else if (entry == (p.none() | p.last())) {
      t.bad |= !is_first;
    } else if (position >= smaller(bin, t.n - begin) ||
               (!is_first && position <= (entry_at(i - 1) & p.none()))) {
      t.bad = true;
    } else {
      set_entry(t, begin + position, (entry & p.above()) != 0 ? 1 : 0);
    }
    number += (entry & p.last()) != 0;
  }
}

template <class T>
MQ_DEVICE void parse_adacomp(Target<T>& t, const AdaCompDecodeArgs& a, const AdaCompHeader<T>& header,
                             T& mark) {
  const std::byte* in = t.wire + sizeof header;
  const auto size = static_cast<std::uint32_t>(header.size());
  if (header.format() == AdaCompFormat::entries) return parse_entries(t, AdaCompParams(a.params), in, size);
  const bool marked = header.format() == AdaCompFormat::marked;
  if (marked) memcpy(&mark, in, sizeof mark);
  t.bad = is_finite(mark) == marked;
  if (marked) in += sizeof mark;
  parse_dense(t, in, size, marked);
}

template <class T>
MQ_DEVICE void decode_adacomp(const AdaCompDecodeArgs& a) {
  const std::uint64_t offset = find_block<AdaCompLength<T>>(a);
  if (offset == kNoBlock) return;
  Target<T> t(a, offset);
  AdaCompHeader<T> header;
  memcpy(&header, t.wire, sizeof header);
  const T scale = header.scale();
  T mark{0};
  t.bad = !(key_of(scale) <= kMaxKey<T>);  // +0 to the greatest number
  if (!t.bad) parse_adacomp(t, a, header, mark);
  if (t.refused()) return;
  write_sides(t, static_cast<std::uint32_t>(header.size()), -scale, scale,
              mark);  // an entry has 1 or 2 bytes
}

}  // namespace mq::kernels::cuda

#define MQ_ADACOMP_KERNELS(name, T)                                                                  \
  MQ_KERNEL(adacomp_encode_##name, mq::kernels::cuda::AdaCompEncodeArgs,                             \
            mq::kernels::cuda::kSparseThreads) {                                                     \
    mq::kernels::cuda::encode_adacomp<T>(args);                                                      \
  }                                                                                                  \
  MQ_WALKS(adacomp, name, mq::kernels::cuda::AdaCompDecodeArgs, mq::kernels::cuda::AdaCompLength<T>) \
  MQ_KERNEL_RESIDENT(adacomp_decode_##name, mq::kernels::cuda::AdaCompDecodeArgs,                    \
                     mq::kernels::cuda::kDecodeThreads, 2) {                                         \
    mq::kernels::cuda::decode_adacomp<T>(args);                                                      \
  }
MQ_ADACOMP_KERNELS(f32, float)
MQ_ADACOMP_KERNELS(f64, double)
#undef MQ_ADACOMP_KERNELS
