#include "sparse_allreduce/merge.hpp"

#include <algorithm>

#include "sparse_allreduce/merge_lists.hpp"
#include "sparse_allreduce/merge_segments.hpp"
#include "sparse_allreduce/positions.hpp"

namespace mq::sparse {
namespace {

std::size_t total(std::span<const Operand> lists) {
  std::size_t n = 0;
  for (const Operand& list : lists) n += list.count;
  return n;
}

template <class T>
const T* values_of(const List& list) {
  return reinterpret_cast<const T*>(list.values);
}

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
  // Intermediate results alternate between the output and a second buffer, so that the last one ends in the
  // output.
  std::span<std::uint64_t> other_indices;
  std::span<T> other_values;
  if (lists.size() > 2) {
    std::size_t most = 0;
    for (const List& list : lists.first(lists.size() - 1)) most += list.indices.size();
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

// Decodes the lists that have no indices. False: positions are malformed.
bool unpack(std::span<const Operand> sources, std::uint64_t low, std::uint64_t high, Workspace& memory,
            std::span<List> lists) {
  for (std::size_t l = 0; l < sources.size(); ++l) {
    const Operand& source = sources[l];
    lists[l] = {source.indices, source.values};
    if (source.listed()) continue;
    const std::span<std::uint64_t> indices = memory.take<std::uint64_t>(source.count);
    if (!decode_positions(source.positions, low, high, indices, low)) return false;
    lists[l].indices = indices;
  }
  return true;
}

}  // namespace

std::size_t merge_room(std::span<const Operand> lists, std::uint64_t low, std::uint64_t high) {
  const std::size_t all = total(lists);
  return high - low < all ? static_cast<std::size_t>(high - low) : all;
}

MergeBy choose_merge(std::span<const Operand> lists, std::uint64_t low, std::uint64_t high) {
  const auto width = static_cast<double>(high - low);
  const std::size_t all = total(lists);
  if (static_cast<double>(all) > width) return MergeBy::segments;
  if (lists.size() < 2) return MergeBy::lists;
  // Costs in nanoseconds, measured at 2 GHz with AVX-512 and 4 Mi positions, for random lists. By lists: an
  // entry of an intermediate result, an entry in both lists, an entry to decode. By segments: a word of a
  // list's bitmap, or an entry to add; a word and an entry of the result.
  const double words = width / 64;
  double sum = 0, lists_ns = 0, segments_ns = 0;
  for (const Operand& list : lists) {
    const auto n = static_cast<double>(list.count);
    const double both = sum * n / width;
    lists_ns += (list.listed() ? 0 : 2 * n) + (sum > 0 ? 3.2 * (sum + n - both) + 8 * both : 0);
    sum += n - both;
    const bool bitmap = !list.positions.empty() && n > width / 11;
    segments_ns += bitmap ? 9 * words : std::min(3.5 * n, 1.5 * n + 9 * words);
  }
  segments_ns += std::min(3 * sum + 8 * words, 1.5 * sum + 20 * words);
  return segments_ns < lists_ns ? MergeBy::segments : MergeBy::lists;
}

bool merge(const Entry& entry, std::span<const Operand> sources, std::uint64_t low, std::uint64_t high,
           Workspace& memory, std::uint64_t* indices, std::byte* values, std::size_t& count, MergeBy by) {
  if (by == MergeBy::automatic) by = choose_merge(sources, low, high);
  if (by == MergeBy::segments)
    return merge_by_segments(entry, sources, low, high, memory, {indices, values}, count);
  const std::span<List> lists = memory.take<List>(sources.size());
  if (!unpack(sources, low, high, memory, lists)) return false;
  count = dispatch(entry.element, entry.op, [&]<class T, class O>() {
    return fold<T, O>(lists, entry.stride, memory, indices, reinterpret_cast<T*>(values));
  });
  return true;
}

}  // namespace mq::sparse
