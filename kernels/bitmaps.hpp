// Sparse vectors as a bitmap and packed values: the inner loops of merging them (sparse_allreduce/merge.hpp),
// once per instruction set, with the same bits from each.
#pragma once

#include <array>

#include "kernels/codec.hpp"

namespace mq::kernels {

// What becomes of two values of one element. NaN wins over every value; of two NaNs min and max keep the
// first.
enum class Fold : std::uint8_t { sum, min, max };
inline constexpr std::array kFolds{Fold::sum, Fold::min, Fold::max};

// A bitmap is `words` little-endian words of 64 positions, the lowest bit first, at any alignment. Functions
// write nothing beyond what they say, and read no value behind those of the ones.
struct BitmapOps {
  // Makes the bitmap of n ascending indices, base the first position and none beyond the last.
  void (*make)(const std::uint64_t* indices, std::size_t n, std::uint64_t base, std::byte* bitmap,
               std::size_t words) noexcept;
  // The ones.
  std::size_t (*count)(const std::byte* bitmap, std::size_t words) noexcept;
  // base + the positions of the ones, ascending; there are n.
  void (*list)(const std::byte* bitmap, std::size_t words, std::uint64_t base, std::uint64_t* indices,
               std::size_t n) noexcept;
  // By Fold: into[i] becomes its fold with the next of n values, for each of the n ones i, ascending.
  std::array<void (*)(void* into, const std::byte* bitmap, std::size_t words, const std::byte* values,
                      std::size_t n) noexcept,
             kFolds.size()>
      fold;
  // What list does, and from[i] to the next of `values` for each one i.
  void (*collect)(const void* from, const std::byte* bitmap, std::size_t words, std::uint64_t base,
                  std::uint64_t* indices, void* values, std::size_t n) noexcept;
};

// element: f32 or f64.
const BitmapOps& bitmap_ops(Element element, Isa isa) noexcept;

}  // namespace mq::kernels
