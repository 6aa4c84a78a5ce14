#include "bench/pagerank/graph.hpp"

#include <algorithm>
#include <tuple>

namespace mq::bench {
namespace {

template <class Get>
std::vector<std::int64_t> distinct(const std::vector<Edge>& edges, const Get& get) {
  std::vector<std::int64_t> all;
  all.reserve(edges.size());
  for (const Edge& e : edges) all.push_back(get(e));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

LocalGraph make_local(EdgeList list) {
  LocalGraph local;
  local.vertices = list.vertices;
  local.sources = distinct(list.edges, [](const Edge& e) { return e.source; });
  local.targets = distinct(list.edges, [](const Edge& e) { return e.target; });
  std::sort(list.edges.begin(), list.edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.target, a.source) < std::tie(b.target, b.source);
  });
  local.source_edges.assign(local.sources.size(), 0);
  local.edge_source.reserve(list.edges.size());
  for (std::size_t e = 0; e < list.edges.size(); ++e) {
    if (e == 0 || list.edges[e].target != list.edges[e - 1].target) local.begin.push_back(e);
    const auto at = std::lower_bound(local.sources.begin(), local.sources.end(), list.edges[e].source);
    local.edge_source.push_back(static_cast<std::uint32_t>(at - local.sources.begin()));
    ++local.source_edges[local.edge_source.back()];
  }
  local.begin.push_back(list.edges.size());
  return local;
}

std::vector<double> pagerank(const EdgeList& graph, double damping, int iterations) {
  const std::size_t n = graph.vertices;
  const double all = static_cast<double>(n);
  std::vector<double> degree(n, 0), x(n, 1 / all), next(n);
  for (const Edge& e : graph.edges) ++degree[static_cast<std::size_t>(e.source)];
  for (int k = 0; k < iterations; ++k) {
    double dangling = 0;
    for (std::size_t v = 0; v < n; ++v)
      if (degree[v] == 0) dangling += x[v];
    std::fill(next.begin(), next.end(), (1 - damping + damping * dangling) / all);
    for (const Edge& e : graph.edges) {
      const auto source = static_cast<std::size_t>(e.source);
      next[static_cast<std::size_t>(e.target)] += damping * x[source] / degree[source];
    }
    x.swap(next);
  }
  return x;
}

}  // namespace mq::bench
