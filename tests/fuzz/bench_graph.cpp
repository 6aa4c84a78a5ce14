// Graph files of mpiq-pagerank: every edge is among the vertices, and ranks share the edges.
#include "bench/pagerank/graph.hpp"

#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using mq::fuzz::require;
  const mq::fuzz::MemoryFile file(std::as_bytes(std::span(data, size)));
  auto whole = mq::bench::read_graph(file.path(), 0, 1);
  std::size_t shared = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto share = mq::bench::read_graph(file.path(), rank, 3);
    require(share.ok() == whole.ok(), "a file is a graph for all ranks or for none");
    if (share.ok()) shared += (*share).edges.size();
  }
  if (!whole.ok()) {
    require(!whole.status().text().empty(), "a file that is refused is refused with a reason");
    return 0;
  }
  require(shared == whole->edges.size() && shared > 0, "every edge is one rank's");
  for (const mq::bench::Edge& edge : whole->edges)
    require(edge.source >= 0 && static_cast<std::uint64_t>(edge.source) < whole->vertices &&
                edge.target >= 0 && static_cast<std::uint64_t>(edge.target) < whole->vertices,
            "edges are between vertices");
  const mq::bench::LocalGraph local = mq::bench::make_local(std::move(*whole));
  require(local.edge_source.size() == shared && local.begin.back() == shared, "no edge is lost");
  require(std::is_sorted(local.sources.begin(), local.sources.end()) &&
              std::is_sorted(local.targets.begin(), local.targets.end()),
          "sources and targets ascend");
  return 0;
}
