// A block of a sparse codec on a device; one thread block encodes one block. It has the elements, the words
// of bits that say which of them are sent, and what all sparse codecs do with these. A word stands for 32
// elements. Where elements are visited, a warp takes one word at a time. Where the order matters, each thread
// *owns* several consecutive words.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cuda/chain.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/scan.cuh"
#include "kernels/sparse/device.hpp"

namespace mq::kernels::cuda {

using namespace simt;  // NOLINT: the kernels' language

// clang-format off
#include "kernels/sparse/keys-inl.hpp"
#include "kernels/ternary/format-inl.hpp"
#include "kernels/valued/format-inl.hpp"
#include "kernels/sparse/cutoff-inl.hpp"
// clang-format on

using Word = std::uint32_t;

MQ_DEVICE std::uint32_t words_of(std::uint32_t n) { return (n + 31) / 32; }
MQ_DEVICE Word lanes_below(std::uint32_t l) { return (Word{1} << l) - 1; }
// The lanes of word w that exist in a block of n.
MQ_DEVICE Word existing(std::uint32_t w, std::uint32_t n) {
  return n - 32 * w >= 32 ? kAll : lanes_below(n - 32 * w);
}

// For zerorun: one bit per word.
MQ_DEVICE std::uint32_t top_bytes(std::uint32_t n) { return (words_of(n) + 7) / 8; }

// The words that this thread owns.
struct Owned {
  std::uint32_t begin, end;
  explicit MQ_DEVICE Owned(std::uint32_t words) {
    const std::uint32_t each = (words + threads() - 1) / threads();
    begin = smaller(thread() * each, words);
    end = smaller(begin + each, words);
  }
};

template <class T>
MQ_DEVICE bool finite_key(Key<T> key) {
  return key <= kMaxKey<T>;
}

// kNear: v is kept in shared memory. Otherwise v is read again from x or, with carry, from the residual. The
// dynamic shared memory holds v if kNear, three arrays of padded_words(block) words, then the pool of
// pool_bytes for histograms and for data on the way to the wire. From kept_at on there is room for `kept`
// values.
template <class T, bool kNear>
struct Block {
  const std::byte* x;
  std::byte* residual;
  Feedback feedback;
  std::uint32_t number, n, words;
  Word *above, *below, *marks;  // the bits of the elements; see the codecs
  std::byte* pool;
  T* kept;  // room for kept_room values; see Selector
  std::uint32_t kept_room;

  MQ_DEVICE Block(const SparseEncodeArgs& a, std::uint32_t ticket) {
    const std::uint64_t begin = std::uint64_t{ticket} * a.block;
    number = ticket;
    n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.block, a.n - begin));
    words = words_of(n);
    x = a.x + begin * sizeof(T);
    residual = a.residual + (a.feedback == Feedback::none ? 0 : begin * sizeof(T));
    feedback = a.feedback;
    const std::uint32_t room = padded_words(a.block);
    above = reinterpret_cast<Word*>(dynamic_shared() + (kNear ? std::size_t{32} * room * sizeof(T) : 0));
    below = above + room;
    marks = below + room;
    pool = reinterpret_cast<std::byte*>(marks + room);
    kept = reinterpret_cast<T*>(dynamic_shared() + a.kept_at);
    kept_room = a.kept;
  }

  MQ_DEVICE T v(std::uint32_t i) const {
    if constexpr (kNear) return reinterpret_cast<const T*>(dynamic_shared())[i];
    return load<T>((feedback == Feedback::carry ? residual : x) + std::size_t{i} * sizeof(T));
  }
  MQ_DEVICE void set_residual(std::uint32_t i, T value) const {
    store<T>(residual + std::size_t{i} * sizeof(T), value);
  }

  // Call it once before v(). Reads v = x; with carry v = x + residual, which replaces the residual. Whole
  // warps call visit(w, i, exists, v).
  template <class Visit>
  MQ_DEVICE void read(const Visit& visit) const {
    read(0, words, visit);
  }
  // The same for words [begin, end).
  template <class Visit>
  MQ_DEVICE void read(std::uint32_t begin, std::uint32_t end, const Visit& visit) const {
    constexpr std::uint32_t kAtOnce = 24 / sizeof(T);  // words, so that enough reads are in flight
    const bool carry = feedback == Feedback::carry;
    for (std::uint32_t w = begin + warp(); w < end; w += kAtOnce * warps()) {
      T value[kAtOnce], old[kAtOnce];
      fetch(x, w, end, value);
      if (carry) fetch(residual, w, end, old);
      MQ_UNROLL(8)
      for (std::uint32_t j = 0; j < kAtOnce; ++j) {
        const std::uint32_t i = 32 * (w + j * warps()) + lane();
        if (w + j * warps() >= end) break;
        if (carry) value[j] = sum_of(value[j], old[j]);
        if (carry && i < n) set_residual(i, value[j]);
        if (kNear && i < n) reinterpret_cast<T*>(dynamic_shared())[i] = value[j];
        visit(w + j * warps(), i, i < n, value[j]);
      }
    }
    barrier();
  }
  // Like read(), but 16 bytes at a time: a warp takes one *group* of kPack<T> words, and each lane that many
  // consecutive elements of it. Whole warps call visit(group, values); elements that do not exist are 0.
  // `begin` and `end` are groups.
  template <class Visit>
  MQ_DEVICE void read_packs(std::uint32_t begin, std::uint32_t end, const Visit& visit) const {
    if (feedback == Feedback::carry)
      packs_of<true, kNear>(x, begin, end, visit);
    else
      packs_of<false, kNear>(x, begin, end, visit);
    barrier();
  }
  // Visits the groups [0, end) again, with the values after reading.
  template <class Visit>
  MQ_DEVICE void each_pack(std::uint32_t end, const Visit& visit) const {
    packs_of<false, false>(kNear                         ? dynamic_shared()
                           : feedback == Feedback::carry ? residual
                                                         : x,
                           0, end, visit);
  }
  MQ_DEVICE std::uint32_t groups() const { return (words + kPack<T> - 1) / kPack<T>; }
  // Corrects the residual after coding. With carry, loss_of(i, v) replaces the residual of the elements in
  // sent_of(w), the bits of a word. With deposit, it is added to the residual of all elements.
  template <class SentOf, class LossOf>
  MQ_DEVICE void correct(const SentOf& sent_of, const LossOf& loss_of) const {
    if (feedback == Feedback::none) return;
    if (feedback == Feedback::deposit) return deposit(loss_of);
    const Owned own(words);
    for (std::uint32_t w = own.begin; w < own.end; ++w)
      for (Word rest = sent_of(w); rest != 0; rest &= rest - 1) {
        const std::uint32_t i = 32 * w + count_trailing_zeros(rest);
        set_residual(i, loss_of(i, v(i)));
      }
  }
  // Calls visit(i) for the ones in the words that this thread owns, ascending.
  template <class Visit>
  MQ_DEVICE void each_owned(const Word* bits, const Visit& visit) const {
    const Owned own(words);
    for (std::uint32_t w = own.begin; w < own.end; ++w)
      for (Word rest = bits[w]; rest != 0; rest &= rest - 1) visit(32 * w + count_trailing_zeros(rest));
  }

 private:
  template <class LossOf>
  MQ_DEVICE void deposit(const LossOf& loss_of) const {
    constexpr std::uint32_t kAtOnce = 32 / sizeof(T);
    for (std::uint32_t w = warp(); w < words; w += kAtOnce * warps()) {
      T value[kAtOnce], old[kAtOnce];
      fetch(residual, w, words, old);
      if constexpr (!kNear) fetch(x, w, words, value);
      MQ_UNROLL(8)
      for (std::uint32_t j = 0; j < kAtOnce; ++j) {
        const std::uint32_t at = w + j * warps(), i = 32 * at + lane();
        if (at >= words) break;
        if (i >= n) continue;
        if constexpr (kNear) value[j] = v(i);
        set_residual(i, deposited(old[j], loss_of(i, value[j])));
      }
    }
  }
  template <bool kAdd, bool kKeep, class Visit>
  MQ_DEVICE void packs_of(const std::byte* from, std::uint32_t begin, std::uint32_t end,
                          const Visit& visit) const {
    struct Loaded {
      Pack<T> v, old;
    };
    const auto first_of = [](std::uint32_t g) { return kPack<T> * (32 * g + lane()); };
    const auto join = [&](std::uint32_t g, const Loaded& in) {
      const Pack<T> v = kAdd ? sum_of(in.v, in.old) : in.v;
      if constexpr (kKeep) store_pack(dynamic_shared() + std::size_t{first_of(g)} * sizeof(T), v);
      visit(g, v);
      return v;
    };
    std::uint32_t rest = begin;  // groups from here on are read one element at a time
    if (packs<T>(from) && (!kAdd || packs<T>(residual))) {
      rest = greater(begin, smaller(end, n / (32 * kPack<T>)));
      in_batches<4>(
          begin + warp(), rest, warps(),
          [&](std::uint32_t g) -> Loaded {
            const std::size_t at = std::size_t{first_of(g)} * sizeof(T);
            Loaded in;
            in.v = load_pack<T>(from + at);
            if constexpr (kAdd) in.old = load_pack<T>(residual + at);
            return in;
          },
          [&](std::uint32_t g, const Loaded& in) {
            const Pack<T> v = join(g, in);
            if constexpr (kAdd) store_pack(residual + std::size_t{first_of(g)} * sizeof(T), v);
          });
    }
    MQ_UNROLL(1)
    for (std::uint32_t g = rest + warp(); g < end; g += warps()) {
      const std::uint32_t first = first_of(g);
      Loaded in;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack<T>; ++j) {
        const bool exists = first + j < n;
        in.v.of[j] = exists ? load<T>(from + std::size_t{first + j} * sizeof(T)) : T{0};
        if constexpr (kAdd)
          in.old.of[j] = exists ? load<T>(residual + std::size_t{first + j} * sizeof(T)) : T{0};
      }
      const Pack<T> v = join(g, in);
      if constexpr (kAdd) MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack<T>; ++j)
        if (first + j < n) set_residual(first + j, v.of[j]);
    }
  }
  // Loads this lane's elements of word w and of the next words that this warp takes. For elements that do not
  // exist it loads the first element, which is ignored, so that no load depends on a branch.
  template <std::uint32_t kWords>
  MQ_DEVICE void fetch(const std::byte* p, std::uint32_t w, std::uint32_t end, T (&value)[kWords]) const {
    if (aligned(p, sizeof(T))) {
      MQ_UNROLL(8)
      for (std::uint32_t j = 0; j < kWords; ++j)
        value[j] = reinterpret_cast<const T*>(p)[clamped_index(w, j, end)];
    } else {
      MQ_UNROLL(8)
      for (std::uint32_t j = 0; j < kWords; ++j)
        memcpy(&value[j], p + std::size_t{clamped_index(w, j, end)} * sizeof(T), sizeof(T));
    }
  }
  MQ_DEVICE std::uint32_t clamped_index(std::uint32_t w, std::uint32_t j, std::uint32_t end) const {
    const std::uint32_t at = w + j * warps(), i = 32 * at + lane();
    return at < end && i < n ? i : 0;
  }
};

// Copies bytes that all threads have written to shared memory to any address. `from` is 4-byte aligned, with
// 4 readable bytes after the end. No barrier.
MQ_DEVICE void copy_out(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  copy_bytes(to, from, bytes, thread(), threads());
}

// The value that represents the elements in `marks`: +Inf, -Inf or NaN. All threads must call it.
template <class T, bool kNear>
MQ_DEVICE T mark_value(const Block<T, kNear>& b) {
  std::uint32_t not_above = 0, not_below = 0;
  b.each_owned(b.marks, [&](std::uint32_t i) {
    not_above |= !(b.v(i) == kInfinity<T>);
    not_below |= !(b.v(i) == -kInfinity<T>);
  });
  const bool some_not_above = barrier_or(not_above != 0), some_not_below = barrier_or(not_below != 0);
  return mark_of<T>(!some_not_above, !some_not_below);
}

// Where this thread's entries begin on the wire: the number of entries before, the position after the last of
// them, and their size in gap bytes.
struct EntryOffsets {
  std::uint32_t rank, next, gap_bytes;
};
struct EntryTotals {
  std::uint32_t count, gap_bytes;  // in all
};
// bits_of(w): the entries of a word. Only the first entry of a word can follow skips, because a skip is
// longer than a word.
template <bool kSigned, class BitsOf>
MQ_DEVICE EntryTotals locate_entries(std::uint32_t words, const BitsOf& bits_of, EntryOffsets& offsets) {
  constexpr std::uint32_t kCountBits = 17;  // of a count up to the longest block, 65536
  const Owned own(words);
  std::uint32_t last = 0;
  for (std::uint32_t w = own.begin; w < own.end; ++w)
    if (const Word bits = bits_of(w); bits != 0) last = 32 * w + 32 - count_leading_zeros(bits);
  offsets.next = block_greatest_before(last);
  std::uint32_t next = offsets.next, own_totals = 0;  // entries, and skips from bit kCountBits on
  for (std::uint32_t w = own.begin; w < own.end; ++w) {
    const Word bits = bits_of(w);
    if (bits == 0) continue;
    const std::uint32_t skips = (32 * w + count_trailing_zeros(bits) - next) / kSkip<kSigned>;
    own_totals += count_ones(bits) + (skips << kCountBits);
    next = 32 * w + 32 - count_leading_zeros(bits);
  }
  const auto bytes_of = [](std::uint32_t totals) {
    return (totals & lanes_below(kCountBits)) + (totals >> kCountBits);
  };
  std::uint32_t all;
  const std::uint32_t before = block_before(own_totals, all);
  offsets.rank = before & lanes_below(kCountBits);
  offsets.gap_bytes = bytes_of(before);
  return {all & lanes_below(kCountBits), bytes_of(all)};
}

// Writes to shared memory what the host's put_gaps writes. signs_of(w): the entries of a word that are above.
template <bool kSigned, class BitsOf, class SignsOf>
MQ_DEVICE void put_gaps(std::uint32_t words, const BitsOf& bits_of, const SignsOf& signs_of,
                        const EntryOffsets& offsets, std::byte* out) {
  const Owned own(words);
  std::uint32_t next = offsets.next;
  out += offsets.gap_bytes;
  for (std::uint32_t w = own.begin; w < own.end; ++w) {
    Word rest = bits_of(w);
    if (rest == 0) continue;
    const Word signs = signs_of(w);
    for (; 32 * w + count_trailing_zeros(rest) - next >= kSkip<kSigned>; next += kSkip<kSigned>)
      *out++ = static_cast<std::byte>(kSigned ? kSkip<kSigned> << 1 : kSkip<kSigned>);
    for (; rest != 0; rest &= rest - 1) {
      const std::uint32_t l = count_trailing_zeros(rest), gap = 32 * w + l - next;
      *out++ = static_cast<std::byte>(kSigned ? gap << 1 | (signs >> l & 1) : gap);
      next = 32 * w + l + 1;
    }
  }
}

}  // namespace mq::kernels::cuda
