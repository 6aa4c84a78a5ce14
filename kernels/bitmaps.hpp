// Sparse vectors as a bitmap and packed values: the inner loops of merging them (sparse_allreduce/merge.hpp).
// They exist once for each instruction set, and all give the same bits.
#pragma once

#include <array>

#include "kernels/codec.hpp"

namespace mq::kernels {

// How two values of one element are combined. NaN wins over every value; of two NaNs, min and max keep the
// first.
enum class Fold : std::uint8_t { sum, min, max };
inline constexpr std::array kFolds{Fold::sum, Fold::min, Fold::max};

// A bitmap is `words` little-endian words of 64 positions, the lowest bit first, at any alignment. Functions
// write only what their comment says. They read the values of the bitmap's ones, and no others.
struct BitmapOps {
  // Makes the bitmap of n ascending indices. `base` is the first position; no index is beyond the last
  // position.
  void (*make)(const std::uint64_t* indices, std::size_t n, std::uint64_t base, std::byte* bitmap,
               std::size_t words) noexcept;
  // Counts the ones.
  std::size_t (*count)(const std::byte* bitmap, std::size_t words) noexcept;
  // Writes base + the position of each one, ascending. There are n ones.
  void (*list)(const std::byte* bitmap, std::size_t words, std::uint64_t base, std::uint64_t* indices,
               std::size_t n) noexcept;
  // Indexed by Fold. For each of the n ones at position i, ascending: combines into[i] with the next of the n
  // values.
  std::array<void (*)(void* into, const std::byte* bitmap, std::size_t words, const std::byte* values,
                      std::size_t n) noexcept,
             kFolds.size()>
      fold;
  // Like list, and also copies from[i] to the next element of `values` for each one at position i.
  void (*collect)(const void* from, const std::byte* bitmap, std::size_t words, std::uint64_t base,
                  std::uint64_t* indices, void* values, std::size_t n) noexcept;
};

// element: f32 or f64.
const BitmapOps& bitmap_ops(Element element, Isa isa) noexcept;

}  // namespace mq::kernels
