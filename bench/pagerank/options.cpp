#include "bench/pagerank/options.hpp"

#include <fmt/format.h>

#include "bench/parse.hpp"
#include "bench/parse_lists.hpp"

namespace mq::bench {
namespace {

constexpr const char* kWhat =
    "PageRank of a graph whose edges are spread over the ranks: every iteration is one sparse allreduce, of "
    "sums at the targets of a rank's edges, which returns ranks at their sources. Start it with its MPI's mpiexec:\n\n"
    "  mpiexec -n 4 mpiq-pagerank --scale 18 --methods kylix,dense --check\n"
    "  mpiexec -n 4 mpiq-pagerank web.mtx.gz --methods kylix,kylix/2x2\n\n"
    "Methods: kylix (configured once, then values only), fused (MPIQ_Sparse_allreduce in every iteration), "
    "union (every rank gets all sums as a list), dense (MPI_Allreduce of the whole vector); kylix/4x2 and "
    "fused/4x2 set the degrees of the layers.";

Result<std::vector<SparseMethod>> methods_of(const std::string& text) {
  auto words = split_list(text);
  if (!words.ok()) return words.status();
  std::vector<SparseMethod> methods;
  for (const std::string& word : *words) {
    // "dense" says what is sent; mpiq-bench calls the same method densify.
    auto method = parse_sparse_method(word == "dense" ? "densify" : word);
    if (!method.ok()) return method.status();
    methods.push_back(std::move(*method));
  }
  return methods;
}

Status check(const PagerankOptions& o) {
  if (!(o.damping >= 0 && o.damping < 1))
    return {Code::bad_argument, fmt::format("--damping {}: must be in [0, 1)", o.damping)};
  return o.file.empty() ? check_rmat(o.rmat) : Status{};
}

}  // namespace

PagerankCommandLine parse_pagerank(int argc, const char* const* argv) {
  PagerankCommandLine line;
  PagerankOptions& o = line.options;
  std::string methods = "kylix,fused,union,dense", dtype = "f64";
  CLI::App app{kWhat, "mpiq-pagerank"};
  app.add_option(
      "FILE", o.file,
      "graph: an edge list (text, 'source target' a line) or a Matrix Market coordinate file, gzip "
      "too; without it an R-MAT graph");
  app.add_option("-s,--scale", o.rmat.scale, "R-MAT: log2 of the vertices")->capture_default_str();
  app.add_option("-e,--edgefactor", o.rmat.edge_factor, "R-MAT: edges for each vertex")
      ->capture_default_str();
  app.add_option("-a", o.rmat.a, "R-MAT: probability of the quadrant of the hubs")->capture_default_str();
  app.add_option("-b", o.rmat.b, "R-MAT: of the second quadrant")->capture_default_str();
  app.add_option("-c", o.rmat.c, "R-MAT: of the third")->capture_default_str();
  app.add_option("--seed", o.rmat.seed, "R-MAT: the same seed makes the same graph on any number of ranks")
      ->capture_default_str();
  app.add_option("-m,--methods", methods, "how to reduce; each in turn")->capture_default_str();
  app.add_option("-d,--dtype", dtype, "type of what is sent: f32 or f64")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->capture_default_str();
  app.add_option("--damping", o.damping, "probability of following an edge")->capture_default_str();
  app.add_option("-n,--iterations", o.iterations, "at most so many")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--tolerance", o.tolerance,
                 "stop when the sum of |change| over vertices with outgoing edges is below")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--check", o.check,
               "compare with PageRank on one processor: the largest relative difference; exit 1 above 1e-6");
  app.add_option("--csv", o.csv, "write the table to this file too");
  app.add_option(
      "-o,--output", o.output,
      "write every vertex, as the graph names it, and its rank to this file: a line each, separated "
      "by a tab, in the order of the vertices; ranks of the first method");
  const auto stop = [&](int code, std::string out, std::string err) {
    line.exit_code = code;
    line.out = std::move(out);
    line.err = std::move(err);
    return line;
  };
  if (!parse(app, argc, argv, line)) return line;
  auto parsed = methods_of(methods);
  Status s = parsed.ok() ? check(o) : parsed.status();
  if (!s.ok()) return stop(kUsage, "", fmt::format("mpiq-pagerank: {}\n", s.text()));
  o.methods = std::move(*parsed);
  o.element = dtype == "f32" ? kernels::Element::f32 : kernels::Element::f64;
  line.run = true;
  return line;
}

}  // namespace mq::bench
