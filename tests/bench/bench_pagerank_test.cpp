// The parts of mpiq-pagerank that need no MPI: graphs made and read, shares, and the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/pagerank/graph.hpp"
#include "bench/permutation.hpp"

namespace mq::bench {
namespace {

TEST(Permutation, is_one_for_every_size) {
  for (const std::uint64_t n : {1U, 2U, 3U, 5U, 64U, 1000U, 4097U}) {
    const Permutation p(n, 3);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < n; ++i) seen.insert(p(i));
    EXPECT_EQ(seen.size(), n);
    EXPECT_LT(*seen.rbegin(), n);
  }
}

// ---- R-MAT

std::vector<Edge> all_edges(const RmatSpec& spec, int ranks) {
  std::vector<Edge> all;
  for (int r = 0; r < ranks; ++r) {
    const EdgeList share = rmat_share(spec, r, ranks);
    all.insert(all.end(), share.edges.begin(), share.edges.end());
  }
  const auto ends = [](const Edge& e) { return std::pair(e.source, e.target); };
  std::ranges::sort(all, {}, ends);
  return all;
}

TEST(Rmat, is_the_same_graph_on_any_number_of_ranks_and_another_with_another_seed) {
  RmatSpec spec{.scale = 8};
  const auto one = all_edges(spec, 1);
  ASSERT_EQ(one.size(), 4096U);
  for (const int ranks : {2, 3, 7}) EXPECT_EQ(all_edges(spec, ranks), one);
  spec.seed = 2;
  EXPECT_NE(all_edges(spec, 1), one);
}

std::vector<int> degrees(const std::vector<Edge>& edges, std::uint64_t vertices) {
  std::vector<int> degree(vertices, 0);
  for (const Edge& e : edges) ++degree[static_cast<std::size_t>(e.source)];
  std::sort(degree.rbegin(), degree.rend());
  return degree;
}

TEST(Rmat, has_hubs) {
  const auto degree = degrees(all_edges({.scale = 12}, 1), 4096);
  // The best connected vertex expects (a + b)^12 = 0.76^12 of 65536 edges: 2435.
  EXPECT_NEAR(degree[0], 2435, 250);
  EXPECT_GT(std::count(degree.begin(), degree.end(), 0), 800) << "and many have none";
}

TEST(Rmat, labels_do_not_tell_the_degree) {
  const RmatSpec spec{.scale = 12};
  double low = 0;
  const auto edges = all_edges(spec, 1);
  for (const Edge& e : edges) low += e.source < 2048 ? 1 : 0;
  EXPECT_NEAR(low / static_cast<double>(edges.size()), 0.5, 0.1) << "0.76 without the permutation";
}

// ---- files

class File {
 public:
  explicit File(const std::string& text)
      : path_(::testing::TempDir() + "mpiq_graph_" + std::to_string(++count_)) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::string path_;
};

TEST(ReadGraph, edge_lists_with_comments_blanks_and_further_columns) {
  const File file("# SNAP says hello\n% and another\n\n0 1\n 3\t2 0.5\r\n1 1\n0 1");
  const auto graph = read_graph(file.path(), 0, 1);
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  EXPECT_EQ(graph->vertices, 4U);
  EXPECT_EQ(graph->edges, (std::vector<Edge>{{0, 1}, {3, 2}, {1, 1}, {0, 1}}));
}

TEST(ReadGraph, shares_are_every_edge_once) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + " " + std::to_string(i % 7) + "\n";
  const File file(text);
  std::vector<std::int64_t> sources;
  for (int r = 0; r < 3; ++r) {
    const auto share = read_graph(file.path(), r, 3);
    ASSERT_TRUE(share.ok());
    EXPECT_EQ(share->vertices, 1000U) << "the same on all ranks";
    EXPECT_NEAR(static_cast<double>(share->edges.size()), 333, 80);
    for (const Edge& e : share->edges) sources.push_back(e.source);
  }
  std::sort(sources.begin(), sources.end());
  ASSERT_EQ(sources.size(), 1000U);
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(sources[static_cast<std::size_t>(i)], i);
}

TEST(ReadGraph, malformed_files_are_refused_with_the_line) {
  const auto refusal = [](const std::string& text) {
    const File file(text);
    const auto graph = read_graph(file.path(), 0, 1);
    EXPECT_FALSE(graph.ok()) << text;
    return graph.ok() ? std::string() : graph.status().text();
  };
  EXPECT_NE(refusal("0 1\n2 x\n").find(":2: '2 x'"), std::string::npos);
  EXPECT_NE(refusal("0\n").find(":1:"), std::string::npos);
  EXPECT_NE(refusal("0 1x\n").find(":1: '0 1x'"), std::string::npos);
  EXPECT_NE(refusal("0 -1\n").find("negative"), std::string::npos);
  EXPECT_NE(refusal("0 1\n0 9000000000\n").find(":2: vertex 9000000000 is 2^32 or more"), std::string::npos);
  EXPECT_NE(refusal("0 99999999999999999999999\n").find(":1:"), std::string::npos);
  EXPECT_NE(refusal("# nothing\n").find("no edge"), std::string::npos);
  EXPECT_NE(refusal("").find("no edge"), std::string::npos);
  EXPECT_NE(refusal("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1\n").find("Matrix Market"),
            std::string::npos);
  EXPECT_FALSE(read_graph("/no/such/file", 0, 1).ok());
}

// ---- shares and the reference

TEST(LocalGraph, multiplies_with_every_edge) {
  const LocalGraph g = make_local({10, {{4, 7}, {2, 7}, {4, 1}, {4, 7}}});
  EXPECT_EQ(g.sources, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(g.targets, (std::vector<std::int64_t>{1, 7}));
  EXPECT_EQ(g.source_edges, (std::vector<double>{1, 3}));
  std::vector<float> sums(2);
  g.multiply({100, 1}, sums);
  EXPECT_EQ(sums, (std::vector<float>{1, 102}));
  EXPECT_TRUE(make_local({10, {}}).targets.empty());
}

TEST(Pagerank, of_a_tiny_graph_is_what_a_hand_computes) {
  // 0 -> 1, 0 -> 2, 1 -> 2; 2 leads nowhere. One iteration from 1/3 with damping 1/2:
  // all get 1/6 + 1/2 * (1/3) / 3 = 2/9; 1 gets 1/2 * 1/6 more, 2 gets 1/2 * (1/6 + 1/3) more.
  const auto x = pagerank({3, {{0, 1}, {0, 2}, {1, 2}}}, 0.5, 1);
  EXPECT_NEAR(x[0], 2.0 / 9, 1e-15);
  EXPECT_NEAR(x[1], 2.0 / 9 + 1.0 / 12, 1e-15);
  EXPECT_NEAR(x[2], 2.0 / 9 + 1.0 / 4, 1e-15);
}

TEST(Pagerank, of_cycles_and_complete_graphs_is_uniform) {
  constexpr std::int64_t n = 11;
  EdgeList cycle{n, {}}, complete{n, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    cycle.edges.push_back({i, (i + 1) % n});
    for (std::int64_t j = 0; j < n; ++j)
      if (i != j) complete.edges.push_back({i, j});
  }
  for (const EdgeList& g : {cycle, complete})
    for (const double x : pagerank(g, 0.85, 50)) EXPECT_NEAR(x, 1.0 / n, 1e-15);
}

TEST(Pagerank, of_a_star_has_its_closed_form) {
  // n - 1 leaves lead to vertex 0, which leads nowhere. With c the rank of the centre and l of a leaf:
  // l = (1 - d)/n + d c/n and c = l + d (n - 1) l, so c = (1 + d (n - 1)) l and l = (1 - d) / (n - d (1 + d
  // (n - 1))).
  constexpr double n = 6, d = 0.85;
  EdgeList star{6, {}};
  for (std::int64_t i = 1; i < 6; ++i) star.edges.push_back({i, 0});
  const auto x = pagerank(star, d, 200);
  const double leaf = (1 - d) / (n - d * (1 + d * (n - 1)));
  EXPECT_NEAR(x[3], leaf, 1e-14);
  EXPECT_NEAR(x[0], (1 + d * (n - 1)) * leaf, 1e-14);
  EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), 1, 1e-13) << "no rank is lost";
}

}  // namespace
}  // namespace mq::bench
