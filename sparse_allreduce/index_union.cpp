#include "sparse_allreduce/index_union.hpp"

#include <numeric>
#include <vector>

namespace mq::sparse {
namespace {

// The first loop has no branch on the data, because such branches are unpredictable. It writes a position
// again and again until its index is passed. Returns the length of the union.
std::size_t merge(Indices a, Indices b, std::uint64_t* to, std::uint32_t* map_a, std::uint32_t* map_b) {
  std::size_t i = 0, j = 0, n = 0;
  while (i < a.size() && j < b.size()) {
    const std::uint64_t x = a[i], y = b[j];
    map_a[i] = map_b[j] = static_cast<std::uint32_t>(n);
    to[n++] = x < y ? x : y;
    i += x <= y;
    j += y <= x;
  }
  for (; i < a.size(); ++i) {
    map_a[i] = static_cast<std::uint32_t>(n);
    to[n++] = a[i];
  }
  for (; j < b.size(); ++j) {
    map_b[j] = static_cast<std::uint32_t>(n);
    to[n++] = b[j];
  }
  return n;
}

struct Node {  // union of the lists [first, last)
  Indices indices;
  std::size_t first, last;
};

void compose(std::span<const std::span<std::uint32_t>> maps, const Node& node, const std::uint32_t* step) {
  for (std::size_t i = node.first; i < node.last; ++i)
    for (std::uint32_t& position : maps[i]) position = step[position];
}

}  // namespace

Indices index_union(std::span<const Indices> lists, std::span<const std::span<std::uint32_t>> maps,
                    Workspace& scratch) {
  if (lists.empty()) return {};
  std::vector<Node> nodes;
  std::size_t most = 0;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    nodes.push_back({lists[i], i, i + 1});
    most += lists[i].size();
  }
  // Successive levels alternate between two buffers.
  const std::span<std::uint64_t> buffers[] = {scratch.take<std::uint64_t>(most),
                                              scratch.take<std::uint64_t>(lists.size() > 2 ? most : 0)};
  const std::span<std::uint32_t> steps = scratch.take<std::uint32_t>(most);
  for (const std::span<std::uint32_t> map : maps) std::iota(map.begin(), map.end(), 0u);
  for (std::size_t level = 0; nodes.size() > 1; ++level) {
    std::uint64_t* to = buffers[level % 2].data();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < nodes.size(); i += 2) {
      if (i + 1 == nodes.size()) {
        // Copied, because the level after the next reuses the buffer that it is in.
        std::copy(nodes[i].indices.begin(), nodes[i].indices.end(), to);
        nodes[kept++] = {{to, nodes[i].indices.size()}, nodes[i].first, nodes[i].last};
        continue;
      }
      const Node a = nodes[i], b = nodes[i + 1];
      if (a.indices.size() + b.indices.size() > kMostIndices) return {lists[0].data(), kMostIndices + 1};
      std::uint32_t* const step_a = steps.data();
      std::uint32_t* const step_b = step_a + a.indices.size();
      const std::size_t n = merge(a.indices, b.indices, to, step_a, step_b);
      compose(maps, a, step_a);
      compose(maps, b, step_b);
      nodes[kept++] = {{to, n}, a.first, b.last};
      to += n;
    }
    nodes.resize(kept);
  }
  return nodes[0].indices;
}

void locate(Indices wanted, Indices list, std::span<std::uint32_t> positions) {
  std::size_t at = 0;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    while (at < list.size() && list[at] < wanted[k]) ++at;
    positions[k] = at < list.size() && list[at] == wanted[k] ? static_cast<std::uint32_t>(at) : kAbsent;
  }
}

}  // namespace mq::sparse
