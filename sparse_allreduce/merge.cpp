#include "sparse_allreduce/merge.hpp"

#include <algorithm>
#include <utility>

#include "sparse_allreduce/merge_lists.hpp"
#include "sparse_allreduce/position_blocks.hpp"

namespace mq::sparse {
namespace {

constexpr std::size_t kAccumulatorBytes = std::size_t{1} << 18;  // half of a small second-level cache
constexpr unsigned kMostBits = 16;

std::size_t total(std::span<const List> lists) {
  std::size_t n = 0;
  for (const List& list : lists) n += list.indices.size();
  return n;
}

template <class T>
const T* values_of(const List& list) {
  return reinterpret_cast<const T*>(list.values);
}

// --- by lists

template <class T, class O>
std::size_t merge_two(const List& a, const List& b, std::size_t stride, std::uint64_t* indices, T* values) {
  const ListMerge<T, O> two(a.indices.data(), values_of<T>(a), a.indices.size(), b.indices.data(),
                            values_of<T>(b), b.indices.size(), indices, values);
  return stride == 1 ? two.run() : two.run_rows(stride);
}

template <class T>
std::size_t copy_list(const List& list, std::size_t stride, std::uint64_t* indices, T* values) {
  const std::size_t n = list.indices.size();
  std::copy_n(list.indices.data(), n, indices);
  std::copy_n(values_of<T>(list), n * stride, values);
  return n;
}

template <class T, class O>
std::size_t fold(std::span<const List> lists, std::size_t stride, Workspace& memory, std::uint64_t* indices,
                 T* values) {
  if (lists.empty()) return 0;
  if (lists.size() == 1) return copy_list(lists[0], stride, indices, values);
  // Results by turns here and there, so that the last one is where it belongs.
  std::span<std::uint64_t> other_indices;
  std::span<T> other_values;
  if (lists.size() > 2) {
    const std::size_t most = total(lists.first(lists.size() - 1));
    other_indices = memory.take<std::uint64_t>(most);
    other_values = memory.take<T>(most * stride);
  }
  List sum = lists[0];
  for (std::size_t l = 1; l < lists.size(); ++l) {
    const bool here = (lists.size() - l) % 2 == 1;
    std::uint64_t* const oi = here ? indices : other_indices.data();
    T* const ov = here ? values : other_values.data();
    const std::size_t n = merge_two<T, O>(sum, lists[l], stride, oi, ov);
    sum = {{oi, n}, reinterpret_cast<const std::byte*>(ov)};
  }
  return sum.indices.size();
}

// --- by segments

// What all segments of a merge share.
template <class T>
struct Accumulator {
  unsigned bits;  // of a segment
  std::size_t stride;
  std::span<T> values;               // the identity, between segments
  std::span<std::uint64_t> present;  // a bit for each position; 0 between segments
};

template <class T>
Accumulator<T> make_accumulator(std::size_t entries, std::size_t stride, T identity, Workspace& memory) {
  unsigned bits = kMostBits;
  // No greater than what it takes: the first use of each element costs as much as an entry.
  while (bits > 0 && (stride * sizeof(T) << bits > kAccumulatorBytes || std::size_t{1} << bits > 2 * entries))
    --bits;
  const std::size_t positions = std::size_t{1} << bits;
  Accumulator<T> all{bits, stride, memory.take<T>(positions * stride),
                     memory.take<std::uint64_t>(std::max<std::size_t>(positions / 64, 1))};
  std::fill(all.values.begin(), all.values.end(), identity);
  std::fill(all.present.begin(), all.present.end(), 0);
  return all;
}

// Adds the entries below `end`, from `at` on; gives where they end.
template <class T, class O>
std::size_t accumulate(const List& list, std::size_t at, std::uint64_t base, std::uint64_t end,
                       const Accumulator<T>& into) {
  const std::uint64_t* const indices = list.indices.data();
  const T* const from = values_of<T>(list);
  T* const values = into.values.data();
  std::uint64_t* const present = into.present.data();
  const std::size_t n = list.indices.size(), stride = into.stride;
  for (; at < n && indices[at] < end; ++at) {
    const std::uint64_t position = indices[at] - base;
    present[position / 64] |= std::uint64_t{1} << (position % 64);
    if (stride == 1) {
      values[position] = O::apply(values[position], from[at]);
    } else {
      T* const row = values + position * stride;
      for (std::size_t s = 0; s < stride; ++s) row[s] = O::apply(row[s], from[at * stride + s]);
    }
  }
  return at;
}

// The indices of what is present, in order; there is room for `room`.
template <unsigned ahead>
std::size_t extract_indices(std::span<std::uint64_t> present, std::uint64_t base, std::uint64_t* indices,
                            std::size_t room) {
  std::size_t n = 0;
  for (std::size_t w = 0; w < present.size(); ++w, base += 64) {
    const std::uint64_t word = std::exchange(present[w], 0);
    if (ahead == 1 && word == 0) continue;  // then most are, and a processor learns so
    n += room - n >= 64 ? blocks::spread_word<ahead>(word, base, indices + n)
                        : blocks::spread_word<0>(word, base, indices + n);
  }
  return n;
}

template <class T>
std::size_t extract(const Accumulator<T>& from, std::size_t entries, std::uint64_t base, T identity,
                    std::uint64_t* indices, T* values, std::size_t room) {
  const std::size_t words = from.present.size();
  const std::size_t n = 4 * entries <= words   ? extract_indices<1>(from.present, base, indices, room)
                        : entries <= 2 * words ? extract_indices<2>(from.present, base, indices, room)
                        : entries <= 6 * words ? extract_indices<6>(from.present, base, indices, room)
                                               : extract_indices<12>(from.present, base, indices, room);
  T* const all = from.values.data();
  const std::size_t stride = from.stride;
  for (std::size_t k = 0; k < n; ++k) {
    const std::uint64_t position = indices[k] - base;
    if (stride == 1) {
      values[k] = std::exchange(all[position], identity);
    } else {
      T* const row = all + position * stride;
      std::copy_n(row, stride, values + k * stride);
      std::fill_n(row, stride, identity);
    }
  }
  return n;
}

template <class T, class O>
std::size_t by_segments(std::span<const List> lists, std::size_t stride, std::size_t room, Workspace& memory,
                        std::uint64_t* indices, T* values) {
  constexpr T identity = O::template identity<T>();
  const Accumulator<T> sums = make_accumulator<T>(total(lists), stride, identity, memory);
  const std::span<std::size_t> at = memory.take<std::size_t>(lists.size());
  std::fill(at.begin(), at.end(), 0);
  for (std::size_t n = 0;;) {
    std::uint64_t next = ~std::uint64_t{0};
    for (std::size_t l = 0; l < lists.size(); ++l)
      if (at[l] < lists[l].indices.size()) next = std::min(next, lists[l].indices[at[l]]);
    if (next == ~std::uint64_t{0}) return n;
    const std::uint64_t base = next >> sums.bits << sums.bits, end = base + (std::uint64_t{1} << sums.bits);
    std::size_t entries = 0;
    for (std::size_t l = 0; l < lists.size(); ++l) {
      const std::size_t begin = at[l];
      at[l] = accumulate<T, O>(lists[l], begin, base, end, sums);
      entries += at[l] - begin;
    }
    n += extract<T>(sums, entries, base, identity, indices + n, values + n * stride, room - n);
  }
}

}  // namespace

std::size_t merge_room(std::span<const List> lists, std::uint64_t low, std::uint64_t high) {
  const std::size_t all = total(lists);
  return high - low < all ? static_cast<std::size_t>(high - low) : all;
}

MergeBy choose_merge(std::span<const List> lists, std::uint64_t low, std::uint64_t high) {
  const auto width = static_cast<double>(high - low);
  const std::size_t all = total(lists);
  if (static_cast<double>(all) > width) return MergeBy::segments;
  if (lists.size() < 2) return MergeBy::lists;
  // Nanoseconds, measured at 2 GHz: an entry of a merge of two lists 2.5, where both have it 8 more; an entry
  // added to a segment 3, taken out of it 2.5, a word of its bitmap 4. Lists as if they were random.
  double sum = static_cast<double>(lists[0].indices.size()), lists_ns = 0;
  for (const List& list : lists.subspan(1)) {
    const auto n = static_cast<double>(list.indices.size());
    const double both = sum * n / width;
    sum += n - both;
    lists_ns += 2.5 * sum + 8 * both;
  }
  const double segments_ns = 3 * static_cast<double>(all) + 2.5 * sum + 4 * width / 64;
  return segments_ns < lists_ns ? MergeBy::segments : MergeBy::lists;
}

std::size_t merge(const Entry& entry, std::span<const List> lists, std::uint64_t low, std::uint64_t high,
                  Workspace& memory, std::uint64_t* indices, std::byte* values, MergeBy by) {
  const std::size_t room = merge_room(lists, low, high);
  if (room == 0) return 0;
  if (by == MergeBy::automatic) by = choose_merge(lists, low, high);
  return dispatch(entry.element, entry.op, [&]<class T, class O>() {
    T* const out = reinterpret_cast<T*>(values);
    return by == MergeBy::lists ? fold<T, O>(lists, entry.stride, memory, indices, out)
                                : by_segments<T, O>(lists, entry.stride, room, memory, indices, out);
  });
}

}  // namespace mq::sparse
