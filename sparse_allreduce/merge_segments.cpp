#include "sparse_allreduce/merge_segments.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "sparse_allreduce/position_reader.hpp"

namespace mq::sparse {
namespace {

constexpr std::size_t kAccumulatorBytes = std::size_t{1} << 18;  // half of a small second-level cache
constexpr unsigned kMostBits = 16;
constexpr std::uint64_t kEnd = ~std::uint64_t{0};

// If a list has this many entries in a segment, its bitmap words are visited instead of its entries.
bool is_crowded(std::size_t entries, std::size_t words) { return entries >= 2 * words; }

// The accumulator for one segment after the other.
template <class T>
struct Segment {
  const kernels::BitmapOps* ops;
  std::size_t stride;
  std::span<T> sums;                 // identity between segments
  std::span<std::uint64_t> present;  // one bit per position; 0 between segments
  std::uint64_t base = 0;            // index of the first position

  std::size_t positions() const { return present.size() * 64; }
  std::uint64_t end() const { return base + positions(); }
};

const std::byte* bytes_of(std::span<const std::uint64_t> words) {
  return reinterpret_cast<const std::byte*>(words.data());
}

template <class T>
Segment<T> make_segment(const Entry& entry, std::size_t entries, T identity, Workspace& memory) {
  unsigned bits = kMostBits;
  // Not larger than needed: the first use of an element costs as much as an entry.
  while (bits > 6 && (entry.bytes() << bits > kAccumulatorBytes || std::size_t{1} << bits > 2 * entries))
    --bits;
  const std::size_t positions = std::size_t{1} << bits;
  const Segment<T> segment{&bitmap_ops(entry.element), entry.stride, memory.take<T>(positions * entry.stride),
                           memory.take<std::uint64_t>(positions / 64)};
  std::fill(segment.sums.begin(), segment.sums.end(), identity);
  std::fill(segment.present.begin(), segment.present.end(), 0);
  return segment;
}

// Reads one list from segment to segment. Its current entries are in list_ (indices) or in bitmap_ (words_
// words). If both are empty, the reader has the next block.
template <class T, class O>
class ListCursor {
 public:
  ListCursor(const Operand& source, std::size_t stride, std::uint64_t low, std::uint64_t high,
             Workspace& memory)
      : reader_(source.positions, low, high, source.count, low), stride_(stride), memory_(&memory) {
    values_ = reinterpret_cast<const T*>(source.values);
    packed_ = !source.listed() || (stride == 1 && !source.positions.empty());
    if (!packed_) list_ = source.indices;
  }

  // Sets `index` to a lower bound of the remaining indices, or to kEnd if none remain. False: malformed.
  [[nodiscard]] bool next(std::uint64_t& index) {
    if (list_.empty() && words_ == 0 && packed_ && !reader_.done() && !load()) return false;
    index = !list_.empty() ? list_[0] : words_ > 0 ? first_ : kEnd;
    return true;
  }
  // Adds the entries in the segment; all earlier entries were added before. Sets `entries` to their number.
  // False: malformed.
  [[nodiscard]] bool add(const Segment<T>& segment, std::span<std::uint64_t> bitmap, std::size_t& entries) {
    entries = 0;
    for (;;) {
      std::uint64_t index = kEnd;
      if (!next(index)) return false;
      if (index >= segment.end()) return true;
      entries += list_.empty() ? add_words(segment) : add_list(segment, bitmap);
    }
  }

 private:
  [[nodiscard]] bool load() {
    PositionBlock block;
    if (!reader_.next(block)) return false;
    if (block.format == blocks::Format::bitmap && stride_ == 1) return load_bitmap(block);
    if (room_.size() < block.count) room_ = memory_->take<std::uint64_t>(block.count);
    list_ = room_.first(block.count);
    return reader_.read(block, room_.data());
  }
  [[nodiscard]] bool load_bitmap(const PositionBlock& block) {
    words_ = block.words();
    bitmap_ = block.body;
    first_ = block.first_position();
    left_ = block.count;
    return reader_.accept_bitmap(block);
  }

  std::size_t add_words(const Segment<T>& segment) {
    const std::size_t at = (first_ - segment.base) / 64, n = std::min(words_, segment.present.size() - at);
    const std::size_t entries = n == words_ ? left_ : segment.ops->count(bitmap_, n);
    fold(segment, at, bitmap_, n, entries);
    bitmap_ += n * 8;
    first_ += n * 64;
    words_ -= n;
    left_ -= entries;
    return entries;
  }

  std::size_t add_list(const Segment<T>& segment, std::span<std::uint64_t> bitmap) {
    const std::uint64_t base = segment.base;
    const auto end = std::lower_bound(list_.begin(), list_.end(), segment.end());
    const auto n = static_cast<std::size_t>(end - list_.begin());
    if (stride_ == 1 && is_crowded(n, segment.present.size())) {
      auto* const bytes = reinterpret_cast<std::byte*>(bitmap.data());
      segment.ops->make(list_.data(), n, base, bytes, bitmap.size());
      fold(segment, 0, bytes, bitmap.size(), n);
    } else {
      add_entries(segment, list_.first(n));
    }
    list_ = list_.subspan(n);
    return n;
  }

  // Adds the next n values at the ones of a bitmap, which starts at word `at` of the segment.
  void fold(const Segment<T>& segment, std::size_t at, const std::byte* bitmap, std::size_t words,
            std::size_t n) {
    for (std::size_t w = 0; w < words; ++w) segment.present[at + w] |= blocks::load<std::uint64_t>(bitmap, w);
    segment.ops->fold[static_cast<std::size_t>(O::kFold)](&segment.sums[64 * at], bitmap, words,
                                                          reinterpret_cast<const std::byte*>(values_), n);
    values_ += n;
  }
  void add_entries(const Segment<T>& segment, std::span<const std::uint64_t> indices) {
    T* const sums = segment.sums.data();
    std::uint64_t* const present = segment.present.data();
    for (const std::uint64_t index : indices) {
      const std::uint64_t position = index - segment.base;
      present[position / 64] |= std::uint64_t{1} << (position % 64);
      T* const row = sums + position * stride_;
      for (std::size_t s = 0; s < stride_; ++s) row[s] = O::apply(row[s], values_[s]);
      values_ += stride_;
    }
  }

  PositionReader reader_;
  std::size_t stride_;
  Workspace* memory_;
  const T* values_ = nullptr;  // of the next entry
  bool packed_ = false;
  std::span<const std::uint64_t> list_;
  std::span<std::uint64_t> room_;  // memory for the indices of a block
  const std::byte* bitmap_ = nullptr;
  std::size_t words_ = 0, left_ = 0;  // remaining words of the bitmap, and ones in them
  std::uint64_t first_ = 0;           // index of its first bit
};

// Moves the content of a segment to the output and clears the segment. Returns the number of entries.
template <class T>
std::size_t extract(const Segment<T>& segment, std::size_t entries, T identity, std::uint64_t* indices,
                    T* values) {
  const std::size_t words = segment.present.size(), stride = segment.stride;
  const std::byte* const bitmap = bytes_of(segment.present);
  const std::size_t n = segment.ops->count(bitmap, words);
  if (stride == 1 && is_crowded(entries, words)) {
    segment.ops->collect(segment.sums.data(), bitmap, words, segment.base, indices, values, n);
    std::fill(segment.sums.begin(), segment.sums.end(), identity);
  } else {
    std::size_t k = 0;
    for (std::size_t w = 0; w < words; ++w)
      for (std::uint64_t word = segment.present[w]; word != 0; word &= word - 1, ++k) {
        const std::size_t position = w * 64 + static_cast<std::size_t>(std::countr_zero(word));
        T* const row = &segment.sums[position * stride];
        indices[k] = segment.base + position;
        std::copy_n(row, stride, values + k * stride);
        std::fill_n(row, stride, identity);
      }
  }
  std::fill(segment.present.begin(), segment.present.end(), 0);
  return n;
}

template <class T, class O>
bool by_segments(const Entry& entry, std::span<const Operand> sources, std::uint64_t low, std::uint64_t high,
                 Workspace& memory, const MergeOutput& output, std::size_t& count) {
  constexpr T identity = O::template identity<T>();
  std::size_t all = 0;
  for (const Operand& source : sources) all += source.count;
  Segment<T> segment = make_segment<T>(entry, all, identity, memory);
  const std::span<std::uint64_t> bitmap = memory.take<std::uint64_t>(segment.present.size());
  const std::span<ListCursor<T, O>> cursors = memory.take<ListCursor<T, O>>(sources.size());
  for (std::size_t l = 0; l < sources.size(); ++l)
    new (&cursors[l]) ListCursor<T, O>(sources[l], entry.stride, low, high, memory);
  T* const values = reinterpret_cast<T*>(output.values);
  for (count = 0;;) {
    std::uint64_t first = kEnd;
    for (ListCursor<T, O>& cursor : cursors) {
      std::uint64_t index = kEnd;
      if (!cursor.next(index)) return false;
      first = std::min(first, index);
    }
    if (first == kEnd) return true;
    segment.base = first - (first - low) % segment.positions();
    std::size_t entries = 0;
    for (ListCursor<T, O>& cursor : cursors) {
      std::size_t added = 0;
      if (!cursor.add(segment, bitmap, added)) return false;
      entries += added;
    }
    count += extract<T>(segment, entries, identity, output.indices + count, values + count * entry.stride);
  }
}

}  // namespace

bool merge_by_segments(const Entry& entry, std::span<const Operand> sources, std::uint64_t low,
                       std::uint64_t high, Workspace& memory, const MergeOutput& output, std::size_t& count) {
  return dispatch(entry.element, entry.op, [&]<class T, class O>() {
    return by_segments<T, O>(entry, sources, low, high, memory, output, count);
  });
}

}  // namespace mq::sparse
