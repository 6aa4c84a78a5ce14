// Sparse vectors as a bitmap and packed values, on a device; see kernels/bitmaps.hpp. Functions that visit
// the ones take the bitmap in parts. A chain (chain.cuh) tells each part how many ones come before it. Within
// a part, a warp takes 32 positions at a time.
#pragma once

#include "kernels/cuda/bitmaps_args.hpp"
#include "kernels/cuda/chain.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/scan.cuh"

namespace mq::kernels::cuda {

using namespace simt;  // NOLINT: the kernels' language

MQ_DEVICE void clear_bitmap(const MakeBitmapArgs& a) {
  const std::uint64_t stride = std::uint64_t{blocks()} * threads();
  for (std::uint64_t w = std::uint64_t{block()} * threads() + thread(); w < a.words; w += stride)
    store<std::uint64_t>(a.bitmap + 8 * w, 0);
}
// The thread with the first index of a word writes the word.
MQ_DEVICE void make_bitmap(const MakeBitmapArgs& a) {
  const std::uint64_t stride = std::uint64_t{blocks()} * threads();
  for (std::uint64_t i = std::uint64_t{block()} * threads() + thread(); i < a.n; i += stride) {
    const std::uint64_t w = (a.indices[i] - a.base) / 64;
    if (w >= a.words || (i > 0 && (a.indices[i - 1] - a.base) / 64 == w)) continue;
    std::uint64_t bits = 0;
    for (std::uint64_t j = i; j < a.n && (a.indices[j] - a.base) / 64 == w; ++j)
      bits |= std::uint64_t{1} << ((a.indices[j] - a.base) % 64);
    store<std::uint64_t>(a.bitmap + 8 * w, bits);
  }
}

MQ_DEVICE void count_bitmap(const CountBitmapArgs& a) {
  const std::uint64_t stride = std::uint64_t{blocks()} * threads();
  std::uint64_t n = 0;
  in_batches<8>(
      std::uint64_t{block()} * threads() + thread(), a.words, stride,
      [&](std::uint64_t w) { return load<std::uint64_t>(a.bitmap + 8 * w); },
      [&](std::uint64_t, std::uint64_t bits) { n += count_ones(bits); });
  n = block_sum(n);
  if (thread() == 0 && n > 0) atomic_add(a.count, n);
}

// Calls store_at(position, rank, load_at(position, rank)) for the ones of one part, with all threads of the
// block. Loads of several words come before their stores, so that the loads do not wait for each other.
template <class Load, class Store>
MQ_DEVICE void visit_bitmap(const VisitBitmapArgs& a, const Load& load_at, const Store& store_at) {
  struct Part {
    std::uint32_t bits[2 * kBitmapPart], before[2 * kBitmapPart];
    std::uint64_t first;  // the rank of the first one
  };
  auto& part = shared<Part>();
  const std::uint32_t number = take_ticket(&a.state->ticket);
  const std::uint64_t begin = std::uint64_t{number} * kBitmapPart;
  const auto words = 2 * static_cast<std::uint32_t>(smaller<std::uint64_t>(kBitmapPart, a.words - begin));
  for (std::uint32_t w = thread(); w < words; w += threads())
    part.bits[w] = load<std::uint32_t>(a.bitmap + 8 * begin + 4 * w);
  barrier();
  const std::uint32_t each = 2 * kBitmapPart / kBitmapThreads;
  const std::uint32_t own = smaller(thread() * each, words), end = smaller(own + each, words);
  std::uint32_t count = 0, all;
  for (std::uint32_t w = own; w < end; ++w) count += count_ones(part.bits[w]);
  std::uint32_t before = block_before(count, all);
  if (thread() == 0) publish_length(a.state->links(), number, all);
  for (std::uint32_t w = own; w < end; ++w) {
    part.before[w] = before;
    before += count_ones(part.bits[w]);
  }
  if (warp() == 0) {
    const std::uint64_t sum = lengths_before(a.state->links(), number, all);
    if (lane() == 0) part.first = sum;
  }
  barrier();
  constexpr std::uint32_t kWords = 8;
  const std::uint64_t first = part.first;
  for (std::uint32_t w = warp(); w < words; w += kWords * warps()) {
    bool is_one[kWords];
    std::uint64_t rank[kWords];
    decltype(load_at(first, first)) loaded[kWords] = {};
    const auto position = [&](std::uint32_t k) { return 64 * begin + 32 * (w + k * warps()) + lane(); };
    MQ_UNROLL(8)
    for (std::uint32_t k = 0; k < kWords; ++k) {
      const std::uint32_t at = w + k * warps(), bits = at < words ? part.bits[at] : 0;
      rank[k] = first + (at < words ? part.before[at] : 0) + count_ones(bits & ((1u << lane()) - 1));
      is_one[k] = (bits >> lane() & 1) != 0 && rank[k] < a.n;
      if (is_one[k]) loaded[k] = load_at(position(k), rank[k]);
    }
    MQ_UNROLL(8)
    for (std::uint32_t k = 0; k < kWords; ++k)
      if (is_one[k]) store_at(position(k), rank[k], loaded[k]);
  }
}

template <class T>
MQ_DEVICE T folded(Fold fold, T a, T b) {
  if (fold == Fold::sum) return sum_of(a, b);
  if (a != a) return a;
  return (fold == Fold::max ? a >= b : b >= a) ? a : b;  // b if b is NaN
}

template <class T>
MQ_DEVICE void fold_bitmap(const VisitBitmapArgs& a) {
  struct Both {
    T element, value;
  };
  visit_bitmap(
      a,
      [&](std::uint64_t position, std::uint64_t rank) {
        return Both{load<T>(a.to + position * sizeof(T)), load<T>(a.values + rank * sizeof(T))};
      },
      [&](std::uint64_t position, std::uint64_t, Both e) {
        store<T>(a.to + position * sizeof(T), folded(a.fold, e.element, e.value));
      });
}

// Implements list, and with elements collect.
template <class T>
MQ_DEVICE void list_bitmap(const VisitBitmapArgs& a) {
  visit_bitmap(
      a,
      [&](std::uint64_t position, std::uint64_t) {
        return a.from != nullptr ? load<T>(a.from + position * sizeof(T)) : T{0};
      },
      [&](std::uint64_t position, std::uint64_t rank, T v) {
        a.indices[rank] = a.base + position;
        if (a.from != nullptr) store<T>(a.to + rank * sizeof(T), v);
      });
}

}  // namespace mq::kernels::cuda

MQ_KERNEL(bitmap_clear, mq::kernels::cuda::MakeBitmapArgs, 256) { mq::kernels::cuda::clear_bitmap(args); }
MQ_KERNEL(bitmap_make, mq::kernels::cuda::MakeBitmapArgs, 256) { mq::kernels::cuda::make_bitmap(args); }
MQ_KERNEL(bitmap_count_begin, mq::kernels::cuda::CountBitmapArgs, 32) {
  if (mq::simt::thread() == 0) *args.count = 0;
}
MQ_KERNEL(bitmap_count, mq::kernels::cuda::CountBitmapArgs, 256) { mq::kernels::cuda::count_bitmap(args); }
MQ_KERNEL(bitmap_list_f32, mq::kernels::cuda::VisitBitmapArgs, 256) {
  mq::kernels::cuda::list_bitmap<float>(args);
}
MQ_KERNEL(bitmap_list_f64, mq::kernels::cuda::VisitBitmapArgs, 256) {
  mq::kernels::cuda::list_bitmap<double>(args);
}
MQ_KERNEL(bitmap_fold_f32, mq::kernels::cuda::VisitBitmapArgs, 256) {
  mq::kernels::cuda::fold_bitmap<float>(args);
}
MQ_KERNEL(bitmap_fold_f64, mq::kernels::cuda::VisitBitmapArgs, 256) {
  mq::kernels::cuda::fold_bitmap<double>(args);
}
