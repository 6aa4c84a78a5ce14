// mpiq-pagerank shows what a sparse allreduce gains for a whole program. It makes or reads a graph, runs the
// methods one after another and prints a table.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "bench/call.hpp"
#include "bench/check.hpp"
#include "bench/console.hpp"
#include "bench/metadata.hpp"
#include "bench/options.hpp"
#include "bench/pagerank/options.hpp"
#include "bench/pagerank/read_graph.hpp"
#include "bench/pagerank/run.hpp"
#include "bench/program.h"
#include "bench/report.hpp"
#include "bench/stats.hpp"

namespace mq::bench {
namespace {

constexpr double kMostDifference = 1e-6;

class Program {
 public:
  Program(const PagerankOptions& options, MPI_Comm comm) : options_(options), comm_(comm) {
    PMPI_Comm_rank(comm, &rank_);
    PMPI_Comm_size(comm, &size_);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  int run();

 private:
  Result<EdgeList> edges(int rank, int ranks) const;
  bool all_well(const Status& mine) const;
  int complain(std::string_view what, int error) const;
  Status check_places() const;
  int run_method(const SharedGraph& graph, const SparseMethod& method);
  int write_ranks(const SharedGraph& graph, const PagerankResult& result);
  void print_head(const SharedGraph& graph) const;
  void print(const SparseMethod& method, const PagerankResult& result, double difference);
  std::string word(const SparseMethod& method) const {
    return method.kind == SparseMethod::Kind::densify ? "dense" : to_string(method);
  }

  const PagerankOptions& options_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::uint64_t vertices_ = 0, first_name_ = 0, edges_ = 0;
  bool ranks_written_ = false;
  std::vector<double> reference_;  // after reference_iterations_ iterations, on rank 0
  int reference_iterations_ = -1;
  std::string csv_;
};

Result<EdgeList> Program::edges(int rank, int ranks) const {
  try {
    if (!options_.file.empty()) return read_graph(options_.file, rank, ranks);
    return Rmat(options_.rmat).share(rank, ranks);
  } catch (const std::bad_alloc&) {
    return Status{Code::no_memory, "not enough memory for the edges"};
  }
}

// The first rank with an error prints it.
bool Program::all_well(const Status& mine) const {
  const int first = first_no(mine.ok(), comm_);
  if (first == rank_) fmt::print(stderr, "mpiq-pagerank: rank {}: {}\n", rank_, mine.text());
  return first == size_;
}

int Program::complain(std::string_view what, int error) const {
  if (rank_ == 0) fmt::print(stderr, "mpiq-pagerank: {}: {}\n", what, error_text(error));
  return kPointFailed;
}

void Program::print_head(const SharedGraph& graph) const {
  if (rank_ != 0) return;
  const std::string name = options_.file.empty()
                               ? fmt::format("R-MAT scale {} edge factor {} a {} b {} c {} seed {}",
                                             options_.rmat.scale, options_.rmat.edge_factor, options_.rmat.a,
                                             options_.rmat.b, options_.rmat.c, options_.rmat.seed)
                               : options_.file;
  print_out(fmt::format(
      "# {}: {} vertices, {} edges on {} ranks; rank 0 has {} sources and {} targets\n"
      "# times: median over iterations of the slowest rank's; bytes: sent by the busiest rank, mean\n"
      "{:<20} {:>5} {:>6} {:>12} {:>12} {:>12} {:>12} {:>10}\n",
      name, vertices_, edges_, size_, graph.local().sources.size(), graph.local().targets.size(), "method",
      "type", "iters", "configure", "iteration", "reduction", "bytes", options_.check ? "rel_diff" : ""));
}

void Program::print(const SparseMethod& method, const PagerankResult& r, double difference) {
  if (rank_ != 0) return;
  const Summary iteration = summarize(r.iteration_s), reduction = summarize(r.reduce_s);
  const std::string checked = options_.check ? fmt::format("{:.1e}", difference) : "";
  print_out(fmt::format("{:<20} {:>5} {:>6} {:>12} {:>12} {:>12} {:>12} {:>10}\n", word(method),
                        name(options_.element), r.iterations,
                        method.kind == SparseMethod::Kind::kylix ? duration(r.configure_s) : "-",
                        duration(iteration.median), duration(reduction.median),
                        r.sent_bytes_max < 0 ? "-" : std::to_string(r.sent_bytes_max), checked));
  csv_ += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", word(method), name(options_.element),
                      size_, vertices_, edges_, r.iterations, r.configure_s, iteration.median,
                      iteration.ci_lo, iteration.ci_hi, reduction.median, r.sent_bytes_max, r.sent_bytes_sum,
                      options_.check ? checked : "");
}

// Checks the output files before anything is measured.
Status Program::check_places() const {
  if (rank_ != 0) return {};
  const auto check = [](std::string_view option, const std::string& path) {
    const Status s = path.empty() ? Status{} : check_place(path);
    return s.ok() ? s : Status{s.code(), fmt::format("{}: {}", option, s.text())};
  };
  if (const Status s = check("--csv", options_.csv); !s.ok()) return s;
  return check("--output", options_.output);
}

int Program::write_ranks(const SharedGraph& graph, const PagerankResult& result) {
  if (options_.output.empty() || ranks_written_) return kDone;
  ranks_written_ = true;
  const std::vector<double> ranks = gather_ranks(graph, result);
  std::string text = "# vertex\trank\n";
  for (std::size_t v = 0; v < ranks.size(); ++v)
    fmt::format_to(std::back_inserter(text), "{}\t{}\n", v + first_name_, ranks[v]);
  const Status written =
      rank_ == 0 ? replace_file(options_.output, std::as_bytes(std::span(text))) : Status{};
  if (written.ok()) return kDone;
  fmt::print(stderr, "mpiq-pagerank: --output: {}\n", written.text());
  return kPointFailed;
}

int Program::run_method(const SharedGraph& graph, const SparseMethod& method) {
  if (!method.degrees.empty())
    if (const Status s = check_degrees(method.degrees, size_); !s.ok()) {
      if (rank_ == 0) fmt::print(stderr, "mpiq-pagerank: {}: {}\n", word(method), s.text());
      return kUsage;
    }
  PagerankResult result = run_pagerank(graph, options_, method);
  if (!all_agree(result.error == MPI_SUCCESS, comm_)) return complain(word(method), result.error);
  double difference = kUnknown;
  if (options_.check) {
    if (rank_ == 0 && reference_iterations_ != result.iterations) {
      const auto all = edges(0, 1);
      if (all.ok()) reference_ = pagerank(*all, options_.damping, result.iterations);
      reference_iterations_ = result.iterations;
    }
    difference = largest_difference(graph, result, reference_);
  }
  print(method, result, difference);
  const int written = write_ranks(graph, result);
  if (!options_.check || difference <= kMostDifference) return written;
  if (rank_ == 0)
    fmt::print(stderr, "mpiq-pagerank: {}: differs by {:.3g} from one processor's PageRank, more than {}\n",
               word(method), difference, kMostDifference);
  return kPointFailed;
}

int Program::run() {
  if (!all_well(check_places())) return kUsage;
  auto mine = edges(rank_, size_);
  if (!all_well(mine.status())) return kUsage;
  vertices_ = mine->vertices;
  first_name_ = mine->first_name;
  edges_ = mine->edges.size();
  PMPI_Allreduce(MPI_IN_PLACE, &edges_, 1, MPI_UINT64_T, MPI_SUM, comm_);
  const SharedGraph graph(make_local(std::move(*mine)), comm_);
  if (!all_agree(graph.error() == MPI_SUCCESS, comm_)) return complain("degrees", graph.error());
  print_head(graph);
  csv_ =
      "method,dtype,ranks,vertices,edges,iterations,configure_s,iteration_s,iteration_ci_lo_s,"
      "iteration_ci_hi_s,reduction_s,sent_bytes_max,sent_bytes_sum,rel_diff\n";
  int code = kDone;
  for (const SparseMethod& method : options_.methods) code = std::max(code, run_method(graph, method));
  if (rank_ == 0 && !options_.csv.empty()) {
    const auto bytes = std::as_bytes(std::span(csv_));
    if (const Status s = replace_file(options_.csv, bytes); !s.ok()) {
      fmt::print(stderr, "mpiq-pagerank: --csv: {}\n", s.text());
      code = std::max<int>(code, kPointFailed);
    }
  }
  PMPI_Bcast(&code, 1, MPI_INT, 0, comm_);
  return code;
}

}  // namespace
}  // namespace mq::bench

int main(int argc, char** argv) {
  using namespace mq::bench;
  const PagerankCommandLine line = parse_pagerank(argc, argv);
  if (!line.run) {
    if (launcher_rank() == 0) print_texts(line.out, line.err);
    return line.exit_code;
  }
  MPI_Init(&argc, &argv);
  if (!mpiq_launched_by_own_mpi("mpiq-pagerank")) {
    MPI_Finalize();
    return kUsage;
  }
  MPI_Comm comm = MPI_COMM_NULL;
  PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int code = kPointFailed;
  try {
    code = Program(line.options, comm).run();
  } catch (const std::exception& e) {  // on one rank: no memory
    fmt::print(stderr, "mpiq-pagerank: {}\n", e.what());
    PMPI_Abort(MPI_COMM_WORLD, kPointFailed);
  }
  PMPI_Comm_free(&comm);
  mpiq_finalize();
  return code;
}
