// bound (lattice/bound.hpp) on a GPU. A warp codes a block; a thread block codes consecutive blocks, so that
// one look back along the chain serves all of them. What is loaded from x and the residual stays in
// registers, and what goes to the wire is built in shared memory: each is read and written once.
//
// On the wire, the head of a block says where the next one begins. So a decode first finds all blocks one
// after the other (sparse/walk.cuh).
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/chain.cuh"
#include "kernels/cuda/scan.cuh"
#include "kernels/lattice/device.hpp"
#include "kernels/sparse/walk.cuh"

namespace mq::simt {

using kernels::LatticeWire;

// The numbers of a block, or their differences, as bit patterns k + zero. Lane i of the warp has numbers i, i
// + 32, ...
template <class T>
struct LatticeNumbers {
  using Wire = LatticeWire<T>;
  using Word = typename Wire::Word;
  using Packed = typename Wire::Packed;
  static constexpr std::uint32_t kGroups = Wire::kBlock / 32, kColumns = Packed::kColumns;
  Word of[kGroups];

  MQ_DEVICE Word at(std::uint32_t i) const {
    Word found = 0;
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g)
      if (g == i / 32) found = shuffle(of[g], i % 32);
    return found;
  }
  // Numbers from the n-th on become the last one.
  MQ_DEVICE void repeat_last(std::uint32_t n) {
    if (n == Wire::kBlock) return;
    const Word last = at(n - 1);
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g)
      if (32 * g + lane() >= n) of[g] = last;
  }
  // The least width that holds all; 0 if they are all 0.
  MQ_DEVICE int width(Word zero) const {
    Word bits = 0;
    bool negative = false;
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g) {
      const Word k = of[g] - zero;
      const bool below = (k & BitsOf<T>::kSign) != 0;
      bits |= below ? ~k : k;
      negative |= below;
    }
    bits = warp_or(bits);
    negative = any(negative);
    return bits != 0 ? Packed::kBits + 1 - static_cast<int>(count_leading_zeros(bits)) : negative;
  }
  // Of each number to the one before; the first is 0.
  MQ_DEVICE LatticeNumbers differences() const {
    LatticeNumbers d;
    Word last = of[0];  // of the group before
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g) {
      const Word before = shuffle_up(of[g], 1);
      d.of[g] = of[g] - (lane() == 0 ? last : before);
      last = shuffle(of[g], 31);
    }
    return d;
  }
  // Makes numbers of differences. False if this lane has one beyond the range, in the first `packed`.
  MQ_DEVICE bool add_up(Word first, std::uint32_t packed) {
    constexpr Word kLimit = Word{1} << Wire::kLimitBits;
    bool ok = true;
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g) {
      for (std::uint32_t d = 1; d < 32; d *= 2) {
        const Word other = shuffle_up(of[g], d);
        if (lane() >= d) of[g] += other;
      }
      of[g] += first;
      first = shuffle(of[g], 31);
      if (32 * g + lane() < packed) ok &= of[g] - Wire::kZero + kLimit < 2 * kLimit;
    }
    return ok;
  }
  MQ_DEVICE T value(std::uint32_t g, T step) const { return (bits_as<T>(of[g]) - Wire::kRounder) * step; }

  // Packs them into shared memory with room for all. `rows` of them are sent.
  MQ_DEVICE void pack(Word* space, std::uint32_t rows, int width, Word zero) const {
    const Word offset = Packed::half_of(width) - zero;
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g) space[32 * g + lane()] = of[g] + offset;
    warp_sync();
    const auto bits = static_cast<std::uint32_t>(width);
    const std::uint32_t words = (rows * bits + Packed::kBits - 1) / Packed::kBits * kColumns;
    Word packed[kGroups];
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g)
      packed[g] = 32 * g + lane() < words ? packed_word(space, 32 * g + lane(), rows, bits) : Word{0};
    warp_sync();
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g)
      if (32 * g + lane() < words) space[32 * g + lane()] = packed[g];
    warp_sync();
  }
  // Reads n numbers from packed ones in shared memory. False if this lane sees that pack cannot have written
  // them.
  MQ_DEVICE bool unpack(const Word* space, std::uint32_t n, int width, Word zero) {
    const auto rows = static_cast<std::uint32_t>(Packed::rows_of(n)),
               bits = static_cast<std::uint32_t>(width);
    const Word offset = zero - Packed::half_of(width), mask = (Word{1} << width) - 1;
    bool needs_width = width == 0;
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < kGroups; ++g) {
      const std::uint32_t i = 32 * g + lane(), begin = i / kColumns * bits, shift = begin % Packed::kBits;
      of[g] = zero;
      if (width == 0 || i >= rows * kColumns) continue;
      const Word* const word = space + begin / Packed::kBits * kColumns + i % kColumns;
      Word code = word[0] >> shift;
      if (shift + bits > Packed::kBits) code |= word[kColumns] << (Packed::kBits - shift);
      code &= mask;
      needs_width |= ((code - Packed::quarter_of(width)) & Packed::half_of(width)) != 0;
      of[g] = code + offset;
    }
    const std::uint32_t used = rows * bits % Packed::kBits;
    const Word* const last_words = space + rows * bits / Packed::kBits * kColumns;
    const bool padded = used == 0 || lane() >= kColumns || last_words[lane()] >> used == 0;
    return any(needs_width) && padded;
  }

 private:
  // Word number `number` of packed codes: bits of one column, from its row `row` on.
  static MQ_DEVICE Word packed_word(const Word* space, std::uint32_t number, std::uint32_t rows,
                                    std::uint32_t bits) {
    const std::uint32_t column = number % kColumns, begin = number / kColumns * Packed::kBits;
    std::uint32_t row = begin / bits;
    Word word = space[row * kColumns + column] >> (begin - row * bits);
    for (++row; row < rows && row * bits < begin + Packed::kBits; ++row)
      word |= space[row * kColumns + column] << (row * bits - begin);
    return word;
  }
};

// One block on its way to the wire.
template <class T, kernels::Feedback F>
struct LatticeEncoder {
  using Wire = LatticeWire<T>;
  using Word = typename Wire::Word;
  using Numbers = LatticeNumbers<T>;
  BlockSource<T, F> source;
  T step, v[Numbers::kGroups];
  Numbers k;
  typename Wire::Form form{};

  MQ_DEVICE LatticeEncoder(const kernels::cuda::LatticeEncodeArgs& a, std::uint64_t begin, std::uint32_t n)
      : source{a.x + begin * sizeof(T),
               F == kernels::Feedback::none ? nullptr : a.residual + begin * sizeof(T), n,
               F != kernels::Feedback::none},
        step(static_cast<T>(a.step)) {
    if (n == 0) return;
    const T inverse = T{1} / step;
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < Numbers::kGroups; ++g) {
      v[g] = source.v(g);
      k.of[g] = bits_as<Word>(v[g] * inverse + Wire::kRounder);
    }
    k.repeat_last(n);
    const int width = k.width(Wire::kZero);
    form = Wire::Form::of(n, width, Wire::in_range(width) ? k.differences().width(0) : width);
  }
  MQ_DEVICE std::uint32_t bytes() const {
    return source.n == 0 ? 0 : 1 + static_cast<std::uint32_t>(form.bytes(source.n));
  }
  // Builds what follows the head and the first number in shared memory, and keeps the residual. Returns how
  // many elements of this lane are not finite.
  MQ_DEVICE std::uint32_t build(std::byte* mine) const {
    if (source.n == 0) return 0;
    std::uint32_t nonfinite = 0;
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < Numbers::kGroups; ++g) {
      const T sent = form.outside ? v[g] : k.value(g, step);
      source.keep(g, form.outside ? T{0} : v[g] - sent);
      if (form.mode == Wire::kRaw) store(mine + std::size_t{source.index(g)} * sizeof(T), sent);
      nonfinite += source.index(g) < source.n && !is_finite(v[g]);
    }
    const auto rows = static_cast<std::uint32_t>(Wire::Packed::rows_of(source.n));
    auto* const space = reinterpret_cast<Word*>(mine);
    if (form.mode == Wire::kPlain && form.width > 0) k.pack(space, rows, form.width, Wire::kZero);
    if (form.mode == Wire::kDelta && form.width > 0) k.differences().pack(space, rows, form.width, 0);
    warp_sync();
    return nonfinite;
  }
  MQ_DEVICE void write(std::byte* wire, const std::byte* mine) const {
    if (source.n == 0) return;
    const auto first = static_cast<std::uint32_t>(form.first_bytes());
    const Word number = shuffle(k.of[0], 0) - Wire::kZero;
    if (lane() == 0) wire[0] = static_cast<std::byte>(form.head());
    if (lane() < first) wire[1 + lane()] = static_cast<std::byte>(number >> (8 * lane()) & 0xff);
    copy_bytes(wire + 1 + first, mine, bytes() - 1 - first, lane(), 32);
  }
};

// The elements of a vector of n in block `number`.
template <class T>
MQ_DEVICE std::uint32_t lattice_elements(std::uint64_t n, std::uint64_t number) {
  const std::uint64_t begin = number * LatticeWire<T>::kBlock;
  return begin < n ? static_cast<std::uint32_t>(smaller<std::uint64_t>(LatticeWire<T>::kBlock, n - begin))
                   : 0;
}

template <class T, kernels::Feedback F>
MQ_DEVICE void encode_lattice_as(const kernels::cuda::LatticeEncodeArgs& a) {
  const std::uint32_t part = take_block(a);
  const std::uint64_t number = std::uint64_t{part} * warps() + warp();
  std::byte* const mine = dynamic_shared() + warp() * kernels::cuda::kLatticeShared<T>;
  const LatticeEncoder<T, F> block(a, number * LatticeWire<T>::kBlock, lattice_elements<T>(a.n, number));
  std::uint32_t all;
  const std::uint32_t before = shuffle(block_before(lane() == 0 ? block.bytes() : 0, all), 0);
  publish_block(a, part, all);
  const std::uint32_t nonfinite = block_sum(block.build(mine));
  block.write(own_wire(a, part, all) + before, mine);
  barrier();
  if (thread() == 0) end_block(a, all, nonfinite);
}

template <class T>
MQ_DEVICE void encode_lattice(const kernels::cuda::LatticeEncodeArgs& a) {
  using kernels::Feedback;
  if (a.feedback == Feedback::none)
    encode_lattice_as<T, Feedback::none>(a);
  else if (a.feedback == Feedback::carry)
    encode_lattice_as<T, Feedback::carry>(a);
  else
    encode_lattice_as<T, Feedback::deposit>(a);
}

// The length of a block, for the walk; it does not know the step.
template <class T>
struct LatticeLength {
  static MQ_DEVICE std::uint32_t head(std::uint32_t) { return 1; }
  static MQ_DEVICE std::uint64_t of(const std::byte* p, std::uint64_t left, std::uint32_t n, std::uint32_t) {
    if (left == 0) return 0;
    const auto form = LatticeWire<T>::Form::of_head(static_cast<std::uint8_t>(*p));
    if (!form.valid(n)) return 0;
    const std::uint64_t bytes = 1 + form.bytes(n);
    return bytes <= left ? bytes : 0;
  }
};

// Where this warp's block begins, or kNoBlock. All threads must call it.
template <class T>
MQ_DEVICE std::uint64_t find_lattice_block(const kernels::cuda::LatticeDecodeArgs& a, std::uint64_t number) {
  using namespace kernels::cuda;  // NOLINT: what the walk needs
  if (a.offsets != nullptr) return number < a.blocks ? a.offsets[number] : kNoBlock;
  struct Own {
    std::uint64_t at[kLatticeWarps];
  };
  auto& own = shared<Own, 103>();
  if (lane() == 0) own.at[warp()] = kNoBlock;
  const std::uint32_t first = block() * warps(), end = smaller(first + warps(), a.blocks);
  const Walked walked = walk_to<LatticeLength<T>>(a, end, [&](std::uint32_t found, std::uint64_t at) {
    if (found >= first) own.at[found - first] = at;
  });
  if (thread() == 0 && end == a.blocks && walked.at != a.wire_bytes) *a.malformed = 1;
  return own.at[warp()];
}

// Decodes a block of which `codes` follow the head, staged in shared memory. False if encode cannot have
// written it.
template <class T, bool kAdd>
MQ_DEVICE bool decode_lattice_block(const BlockTarget<T, kAdd>& target, typename LatticeWire<T>::Form form,
                                    const std::byte* codes, std::byte* mine, T step) {
  using Wire = LatticeWire<T>;
  using Word = typename Wire::Word;
  using Numbers = LatticeNumbers<T>;
  const auto first_bytes = static_cast<std::uint32_t>(form.first_bytes());
  fetch_bytes(mine, codes + first_bytes, static_cast<std::uint32_t>(form.bytes(target.n)) - first_bytes);
  warp_sync();
  if (form.mode == Wire::kRaw) {
    MQ_UNROLL(8)
    for (std::uint32_t g = 0; g < Numbers::kGroups; ++g)
      if (target.has(g)) target.put(g, load<T>(mine + std::size_t{target.index(g)} * sizeof(T)));
    return true;
  }
  const bool delta = form.mode == Wire::kDelta;
  const auto packed = static_cast<std::uint32_t>(Wire::Packed::rows_of(target.n)) * Numbers::kColumns;
  Numbers k;
  bool ok = k.unpack(reinterpret_cast<const Word*>(mine), target.n, form.width, delta ? 0 : Wire::kZero);
  if (delta) {
    ok &= shuffle(k.of[0], 0) == 0;
    ok &= k.add_up(load<Word>(codes) + Wire::kZero, packed);
  }
  const Word last = k.at(target.n - 1);
  MQ_UNROLL(8)
  for (std::uint32_t g = 0; g < Numbers::kGroups; ++g)
    if (!target.has(g) && target.index(g) < packed) ok &= k.of[g] == last;
  if (step == T{0} || any(!ok)) return false;
  MQ_UNROLL(8)
  for (std::uint32_t g = 0; g < Numbers::kGroups; ++g) target.put(g, k.value(g, step));
  return true;
}

template <class T, bool kAdd>
MQ_DEVICE void decode_lattice_as(const kernels::cuda::LatticeDecodeArgs& a) {
  using Wire = LatticeWire<T>;
  const std::uint64_t number = std::uint64_t{block()} * warps() + warp();
  const std::uint64_t at = find_lattice_block<T>(a, number);
  barrier();  // the walk used the shared memory
  if (number >= a.blocks) return;
  bool ok = at != kernels::cuda::kNoBlock;
  if (ok) {
    const std::uint64_t begin = number * Wire::kBlock * sizeof(T);
    const BlockTarget<T, kAdd> target{kAdd ? a.base + begin : nullptr, a.x + begin,
                                      lattice_elements<T>(a.n, number)};
    ok = decode_lattice_block(target, Wire::Form::of_head(static_cast<std::uint8_t>(a.wire[at])),
                              a.wire + at + 1, dynamic_shared() + warp() * kernels::cuda::kLatticeShared<T>,
                              static_cast<T>(a.step));
  }
  if (!ok && lane() == 0) *a.malformed = 1;
}

template <class T>
MQ_DEVICE void decode_lattice(const kernels::cuda::LatticeDecodeArgs& a) {
  if (a.base != nullptr)
    decode_lattice_as<T, true>(a);
  else
    decode_lattice_as<T, false>(a);
}

// Patterns of magnitudes have their order. The last thread block to end writes the result.
template <class T>
MQ_DEVICE void find_greatest(const kernels::cuda::GreatestArgs& a) {
  using Word = typename BitsOf<T>::Word;
  Word most = 0;
  const std::uint64_t stride = std::uint64_t{blocks()} * threads();
  in_batches<4>(
      std::uint64_t{block()} * threads() + thread(), a.n, stride,
      [&](std::uint64_t i) { return load<T>(a.x + i * sizeof(T)); },
      [&](std::uint64_t, T v) {
        if (is_finite(v)) most = greater(most, bits_as<Word>(v) & ~BitsOf<T>::kSign);
      });
  most = block_max(most);
  if (thread() != 0) return;
  atomic_max(&a.state->pattern, std::uint64_t{most});
  fence();
  if (atomic_add(&a.state->done, 1) + 1 != blocks()) return;
  fence();
  *a.greatest = static_cast<double>(bits_as<T>(static_cast<Word>(load_acquire(&a.state->pattern))));
}

}  // namespace mq::simt

#define MQ_LATTICE_KERNELS(element, T)                                                                 \
  MQ_KERNEL(lattice_##element##_encode, mq::kernels::cuda::LatticeEncodeArgs,                          \
            mq::kernels::cuda::kLatticeThreads) {                                                      \
    mq::simt::encode_lattice<T>(args);                                                                 \
  }                                                                                                    \
  MQ_KERNEL(lattice_##element##_walk, mq::kernels::cuda::LatticeDecodeArgs, 256) {                     \
    mq::kernels::cuda::walk<mq::simt::LatticeLength<T>>(args);                                         \
  }                                                                                                    \
  MQ_KERNEL(lattice_##element##_decode, mq::kernels::cuda::LatticeDecodeArgs,                          \
            mq::kernels::cuda::kLatticeThreads) {                                                      \
    mq::simt::decode_lattice<T>(args);                                                                 \
  }                                                                                                    \
  MQ_KERNEL(greatest_##element, mq::kernels::cuda::GreatestArgs, mq::kernels::cuda::kLatticeThreads) { \
    mq::simt::find_greatest<T>(args);                                                                  \
  }
MQ_LATTICE_KERNELS(f32, float)
MQ_LATTICE_KERNELS(f64, double)
MQ_KERNEL(greatest_begin, mq::kernels::cuda::GreatestArgs, 32) {
  if (mq::simt::thread() == 0) *args.state = {0, 0, 0};
}
