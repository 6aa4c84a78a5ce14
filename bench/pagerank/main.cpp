// mpiq-pagerank shows what a sparse allreduce gains for a whole program. It makes or reads a graph, runs the
// methods one after another and prints a table.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/call.hpp"
#include "bench/check.hpp"
#include "bench/console.hpp"
#include "bench/metadata.hpp"
#include "bench/options.hpp"
#include "bench/pagerank/graph.hpp"
#include "bench/parse.hpp"
#include "bench/parse_lists.hpp"
#include "bench/sparse_call.hpp"
#include "bench/stats.hpp"
#include "bench/sync.hpp"
#include "bench/with_mpi.hpp"

namespace mq::bench {
namespace {

constexpr double kMostDifference = 1e-6;
constexpr const char* kWhat =
    "PageRank of a graph whose edges are spread over the ranks: every iteration is one sparse allreduce, of "
    "sums at the targets of a rank's edges, which returns ranks at their sources. Start it with its MPI's mpiexec:\n\n"
    "  mpiexec -n 4 mpiq-pagerank --scale 18 --methods kylix,dense --check\n"
    "  mpiexec -n 4 mpiq-pagerank web.txt.gz --methods kylix,kylix/2x2\n\n"
    "Methods: kylix (configured once, then values only), fused (MPIQ_Sparse_allreduce in every iteration), "
    "union (every rank gets all sums as a list), dense (MPI_Allreduce of the whole vector); kylix/4x2 and "
    "fused/4x2 set the degrees of the layers.";

// The command line, which is parsed before MPI starts, as in mpiq-bench.
struct PagerankOptions {
  std::string file;  // "": an R-MAT graph
  RmatSpec rmat;
  std::vector<SparseMethod> methods;
  double damping = 0.85;
  int iterations = 20;
  bool check = false;
  int exit_code = -1;  // not -1: print the texts and exit with it
  std::string out, err;
};

Status take_methods(const std::string& text, std::vector<SparseMethod>& methods) {
  auto words = split_list(text);
  if (!words.ok()) return words.status();
  for (const std::string& word : *words) {
    // "dense" says what is sent; mpiq-bench calls the same method densify.
    auto method = parse_sparse_method(word == "dense" ? "densify" : word);
    if (!method.ok()) return method.status();
    methods.push_back(std::move(*method));
  }
  return {};
}

PagerankOptions parse_pagerank(int argc, const char* const* argv) {
  PagerankOptions o;
  OptionParser parser("mpiq-pagerank", kWhat);
  parser.group("Graph");
  parser.add(
      {"FILE", &o.file, "an edge list (text, 'source target' a line, gzip too); without it an R-MAT graph"});
  parser.add({"-s,--scale", &o.rmat.scale, "R-MAT: log2 of the vertices", from_to(1, 32)});
  parser.add({"-e,--edgefactor", &o.rmat.edge_factor, "R-MAT: edges for each vertex", from_to(1, 4096)});
  parser.add({"--seed", &o.rmat.seed, "R-MAT: the same seed makes the same graph on any number of ranks"});
  parser.group("Reductions");
  parser.add({"-m,--methods=METHOD,...",
              Option::Text{"kylix,fused,union,dense",
                           [&](const std::string& text) { return take_methods(text, o.methods); }},
              "how to reduce; each in turn"});
  parser.add({"--damping", &o.damping, "probability of following an edge, below 1", from_to(0, 1 - 1e-9)});
  parser.add({"-n,--iterations", &o.iterations, "how many", from_to(1, 1 << 24)});
  parser.add(
      {"--check", &o.check,
       "compare the ranks of vertices with outgoing edges with PageRank on one processor: the largest relative difference; exit "
       "1 above 1e-6"});
  (void)parse(parser, argc, argv, o);
  return o;
}

// The edges of this rank, and what all ranks know about their vertices.
struct Graph {
  LocalGraph local;
  std::vector<double> known;       // of each local source: its degree, and on how many ranks it is a source
  std::uint64_t most_targets = 0;  // a bound of the union, equal on all ranks
};

struct Outcome {
  double configure_s = 0;
  std::vector<double> iteration_s, reduce_s;  // of each iteration, of the slowest rank
  std::uint64_t sent_bytes_max = 0;           // in an iteration, on average
  std::vector<double> ranks;                  // at the local sources
};

// Collective. Returns MPI error codes.
int share(Graph& graph, MPI_Comm comm) {
  const LocalGraph& local = graph.local;
  std::vector<double> mine;
  for (const double edges : local.source_edges) mine.insert(mine.end(), {edges, 1});
  graph.known.resize(mine.size());
  graph.most_targets = local.targets.size();
  PMPI_Allreduce(MPI_IN_PLACE, &graph.most_targets, 1, MPI_UINT64_T, MPI_SUM, comm);
  graph.most_targets = std::min(graph.most_targets, local.vertices);
  const auto n = static_cast<MPI_Count>(local.sources.size());
  return MPIQ_Sparse_allreduce(n, local.sources.data(), mine.data(), n, local.sources.data(),
                               graph.known.data(), 2, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL);
}

// PageRank by one method.
class Iteration {
 public:
  Iteration(const Graph& graph, const PagerankOptions& o, const SparseMethod& method, MPI_Comm comm)
      : graph_(graph),
        options_(o),
        comm_(comm),
        call_(method, SparseShape{local_.vertices, 1, kernels::Element::f64}, false, comm),
        form_(form_of(method)),
        vector_(form_ == ResultForm::vector ? local_.vertices : 0),
        union_values_(form_ == ResultForm::list ? graph.most_targets : 0) {}

  int run(Outcome& outcome) {
    int error = settle();
    dissemination_barrier(comm_);
    const double start = now_s();
    if (error == MPI_SUCCESS) error = call_.configure(buffers_);
    outcome.configure_s = now_s() - start;
    dissemination_barrier(comm_);
    const std::uint64_t before = call_.stats().wire_bytes_sent;
    for (int i = 0; error == MPI_SUCCESS && i < options_.iterations; ++i) error = step(outcome);
    if (error != MPI_SUCCESS) return error;
    outcome.sent_bytes_max =
        (call_.stats().wire_bytes_sent - before) / static_cast<unsigned>(options_.iterations);
    PMPI_Allreduce(MPI_IN_PLACE, &outcome.sent_bytes_max, 1, MPI_UINT64_T, MPI_MAX, comm_);
    for (auto* series : {&outcome.iteration_s, &outcome.reduce_s})
      PMPI_Allreduce(MPI_IN_PLACE, series->data(), options_.iterations, MPI_DOUBLE, MPI_MAX, comm_);
    PMPI_Allreduce(MPI_IN_PLACE, &outcome.configure_s, 1, MPI_DOUBLE, MPI_MAX, comm_);
    outcome.ranks = std::move(x_);
    return MPI_SUCCESS;
  }

 private:
  int step(Outcome& outcome) {
    const double start = now_s();
    for (std::size_t i = 0; i < x_.size(); ++i) weighted_[i] = x_[i] / graph_.known[2 * i];
    local_.multiply(weighted_, out_);
    const double reduce_start = now_s();
    if (const int error = call_(buffers_)) return error;
    outcome.reduce_s.push_back(now_s() - reduce_start);
    const double base =
        (1 - options_.damping + options_.damping * dangling_) / static_cast<double>(local_.vertices);
    std::size_t cursor = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = base + options_.damping * sum_at(i, cursor);
    if (const int error = settle()) return error;
    outcome.iteration_s.push_back(now_s() - start);
    return MPI_SUCCESS;
  }
  // The reduced sum at a source; 0 if no rank has edges to it. Sources come in ascending order.
  double sum_at(std::size_t source, std::size_t& cursor) const {
    if (form_ == ResultForm::wanted) return in_[source];
    if (form_ == ResultForm::vector) return vector_[static_cast<std::size_t>(local_.sources[source])];
    const std::size_t n = call_.union_count();
    while (cursor < n && union_indices_[cursor] < local_.sources[source]) ++cursor;
    return cursor < n && union_indices_[cursor] == local_.sources[source] ? union_values_[cursor] : 0;
  }
  // What vertices with outgoing edges do not hold, dangling ones do.
  int settle() {
    double held = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) held += x_[i] / graph_.known[2 * i + 1];
    const int error = PMPI_Allreduce(MPI_IN_PLACE, &held, 1, MPI_DOUBLE, MPI_SUM, comm_);
    dangling_ = 1 - held;
    return error;
  }

  const Graph& graph_;
  const LocalGraph& local_ = graph_.local;
  const PagerankOptions& options_;
  MPI_Comm comm_;
  SparseCall call_;
  ResultForm form_;
  std::vector<double> vector_, union_values_;
  std::vector<std::int64_t> union_indices_ = std::vector<std::int64_t>(union_values_.size());
  std::vector<double> out_ = std::vector<double>(local_.targets.size());
  std::vector<double> in_ = std::vector<double>(local_.sources.size()), weighted_ = in_;
  std::vector<double> x_ = std::vector<double>(in_.size(), 1 / static_cast<double>(local_.vertices));
  // weighted_: x_, at the sources, divided by the degrees
  double dangling_ = 0;  // rank of the vertices without outgoing edges
  SparseBuffers buffers_{local_.targets, local_.sources, out_.data(),         in_.data(),
                         vector_.data(), union_indices_, union_values_.data()};
};

class Program {
 public:
  Program(const PagerankOptions& options, MPI_Comm comm) : options_(options), comm_(comm) {
    PMPI_Comm_rank(comm, &rank_);
    PMPI_Comm_size(comm, &size_);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }

  int run() {
    auto mine = edges(rank_, size_);
    const int first = first_no(mine.ok(), comm_);
    if (first == rank_) fmt::print(stderr, "mpiq-pagerank: rank {}: {}\n", rank_, mine.status().text());
    if (first != size_) return kUsage;
    std::uint64_t all = mine->edges.size();
    PMPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_SUM, comm_);
    graph_.local = make_local(std::move(*mine));
    const int error = share(graph_, comm_);
    if (!all_agree(error == MPI_SUCCESS, comm_)) return complain(kPointFailed, "degrees", error_text(error));
    const auto& [scale, edge_factor, seed] = options_.rmat;
    const std::string rmat = fmt::format("R-MAT scale {} edge factor {} seed {}", scale, edge_factor, seed);
    if (rank_ == 0)
      print_out(fmt::format(
          "# {}: {} vertices, {} edges on {} ranks; rank 0 has {} sources and {} targets\n"
          "# times: median over {} iterations of the slowest rank's; bytes: sent by the busiest rank, mean\n"
          "{:<20} {:>12} {:>12} {:>12} {:>12} {:>10}\n",
          options_.file.empty() ? rmat : options_.file, graph_.local.vertices, all, size_,
          graph_.local.sources.size(), graph_.local.targets.size(), options_.iterations, "method",
          "configure", "iteration", "reduction", "bytes", options_.check ? "rel_diff" : ""));
    int code = kDone;
    for (const SparseMethod& method : options_.methods) code = std::max(code, run_method(method));
    return code;
  }

 private:
  Result<EdgeList> edges(int rank, int ranks) const {
    if (!options_.file.empty()) return read_graph(options_.file, rank, ranks);
    return rmat_share(options_.rmat, rank, ranks);
  }
  int complain(int code, std::string_view what, std::string_view why) const {
    if (rank_ == 0) fmt::print(stderr, "mpiq-pagerank: {}: {}\n", what, why);
    return code;
  }

  int run_method(const SparseMethod& method) {
    const bool dense = method.kind == SparseMethod::Kind::densify;
    const std::string word = dense ? "dense" : to_string(method);
    if (!method.degrees.empty())
      if (const Status s = check_degrees(method.degrees, size_); !s.ok())
        return complain(kUsage, word, s.text());
    Outcome outcome;
    const int error = Iteration(graph_, options_, method, comm_).run(outcome);
    if (!all_agree(error == MPI_SUCCESS, comm_)) return complain(kPointFailed, word, error_text(error));
    const double difference = options_.check ? largest_difference(outcome) : 0;
    if (rank_ == 0)
      print_out(fmt::format("{:<20} {:>12} {:>12} {:>12} {:>12} {:>10}\n", word,
                            method.kind == SparseMethod::Kind::kylix ? duration(outcome.configure_s) : "-",
                            duration(summarize(outcome.iteration_s).median),
                            duration(summarize(outcome.reduce_s).median),
                            dense ? "-" : std::to_string(outcome.sent_bytes_max),
                            options_.check ? fmt::format("{:.1e}", difference) : ""));
    if (difference <= kMostDifference) return kDone;
    return complain(kPointFailed, word,
                    fmt::format("differs by {:.3g} from one processor's PageRank, more than {}", difference,
                                kMostDifference));
  }

  // From PageRank on one processor, at the sources of any rank. Collective.
  double largest_difference(const Outcome& outcome) {
    constexpr std::size_t kPiece = std::size_t{1} << 24;  // elements of a message; fits the int count of MPI
    if (reference_.empty()) {
      if (rank_ == 0)
        if (const auto all = edges(0, 1); all.ok())
          reference_ = pagerank(*all, options_.damping, options_.iterations);
      reference_.resize(graph_.local.vertices);
      for (std::size_t i = 0; i < reference_.size(); i += kPiece)
        PMPI_Bcast(&reference_[i], static_cast<int>(std::min(kPiece, reference_.size() - i)), MPI_DOUBLE, 0,
                   comm_);
    }
    double largest = 0;
    for (std::size_t i = 0; i < outcome.ranks.size(); ++i) {
      const double right = reference_[static_cast<std::size_t>(graph_.local.sources[i])];
      const double difference = std::abs(outcome.ranks[i] - right) / right;
      if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
    }
    PMPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, comm_);
    return largest;
  }

  const PagerankOptions& options_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  Graph graph_;
  std::vector<double> reference_;  // with --check
};

}  // namespace
}  // namespace mq::bench

int main(int argc, char** argv) {
  using namespace mq::bench;
  const PagerankOptions options = parse_pagerank(argc, argv);
  if (options.exit_code != -1) {
    if (launcher_rank() == 0) print_texts(options.out, options.err);
    return options.exit_code;
  }
  return with_mpi("mpiq-pagerank", argc, argv, [&](MPI_Comm comm) { return Program(options, comm).run(); });
}
