#include "bench/pagerank/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <tuple>

#include "bench/lines.hpp"
#include "bench/permutation.hpp"
#include "bench/random.hpp"

namespace mq::bench {
namespace {

constexpr std::int64_t kMostVertices = std::int64_t{1} << 32;  // every number up to the largest is a vertex

// Takes a number and the blanks before it off a line.
bool take_number(std::string_view& line, std::int64_t& value) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t,;"), line.size()));
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return error == std::errc{} && (line.empty() || std::strchr(" \t,;", line.front()) != nullptr);
}

// What is wrong with a line; "" if nothing is.
std::string read_edge(std::string_view line, Edge& edge) {
  std::string_view rest = line;
  if (!take_number(rest, edge.source) || !take_number(rest, edge.target))
    return fmt::format("'{}' is not a source and a target", line.substr(0, 40));
  if (std::min(edge.source, edge.target) < 0) return "a vertex is negative";
  const std::int64_t most = std::max(edge.source, edge.target);
  if (most < kMostVertices) return {};
  return fmt::format("vertex {} is 2^32 or more: number the vertices from 0 on without gaps", most);
}

}  // namespace

Result<EdgeList> read_graph(const std::string& path, int rank, int ranks) {
  Lines lines(path);
  if (!lines.open()) return Status{Code::bad_argument, fmt::format("{}: {}", path, std::strerror(errno))};
  const auto bad = [&](std::string_view why) {
    return Status{Code::bad_argument, fmt::format("{}:{}: {}", path, lines.number(), why)};
  };
  EdgeList list;
  std::uint64_t count = 0;
  for (std::string_view line; lines.next(line);) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#' || line[first] == '%') {
      if (line.starts_with("%%MatrixMarket"))
        return bad("this is a Matrix Market file: write its entries as lines 'source target', from 0 on");
      continue;
    }
    Edge edge{};
    if (const std::string why = read_edge(line, edge); !why.empty()) return bad(why);
    list.vertices =
        std::max(list.vertices, static_cast<std::uint64_t>(std::max(edge.source, edge.target)) + 1);
    if (Random(count++).next() % static_cast<std::uint64_t>(ranks) == static_cast<std::uint64_t>(rank))
      list.edges.push_back(edge);
  }
  if (lines.failed()) return bad("the rest cannot be read: the file is damaged");
  if (count == 0) return bad("the file has no edge");
  return list;
}

EdgeList rmat_share(const RmatSpec& spec, int rank, int ranks) {
  constexpr double kA = 0.57, kB = 0.19, kC = 0.19;
  EdgeList list;
  list.vertices = std::uint64_t{1} << spec.scale;
  const Permutation label(list.vertices, Random(spec.seed).next());
  const std::uint64_t edges = list.vertices * spec.edge_factor;
  for (auto i = static_cast<std::uint64_t>(rank); i < edges; i += static_cast<std::uint64_t>(ranks)) {
    Random random(Random(spec.seed + 0x632be59bd9b4e019U).next() ^ Random(i).next());
    std::uint64_t source = 0, target = 0;
    for (int level = 0; level < spec.scale; ++level) {
      const double u = static_cast<double>(random.next() >> 11) * 0x1p-53;
      const bool down = u >= kA + kB;
      const bool right = down ? u >= kA + kB + kC : u >= kA;
      source = source << 1 | (down ? 1 : 0);
      target = target << 1 | (right ? 1 : 0);
    }
    list.edges.push_back(
        {static_cast<std::int64_t>(label(source)), static_cast<std::int64_t>(label(target))});
  }
  return list;
}

LocalGraph make_local(EdgeList list) {
  LocalGraph local;
  local.vertices = list.vertices;
  for (const Edge& e : list.edges) local.sources.push_back(e.source);
  std::sort(local.sources.begin(), local.sources.end());
  local.sources.erase(std::unique(local.sources.begin(), local.sources.end()), local.sources.end());
  std::sort(list.edges.begin(), list.edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.target, a.source) < std::tie(b.target, b.source);
  });
  local.source_edges.assign(local.sources.size(), 0);
  for (std::size_t e = 0; e < list.edges.size(); ++e) {
    if (e == 0 || list.edges[e].target != list.edges[e - 1].target) {
      local.begin.push_back(e);
      local.targets.push_back(list.edges[e].target);
    }
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
