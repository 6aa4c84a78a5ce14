#include "bench/pagerank/run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <utility>

#include "bench/call.hpp"
#include "bench/check.hpp"
#include "bench/sync.hpp"

namespace mq::bench {
namespace {

// Reduces values of several ranks at the same indices to their sum or minimum. Used for work that is done
// once.
int reduce_once(const std::vector<std::int64_t>& out, const std::vector<double>& values,
                const std::vector<std::int64_t>& in, std::vector<double>& result, MPI_Op op, MPI_Comm comm) {
  result.resize(in.size());
  return MPIQ_Sparse_allreduce(static_cast<MPI_Count>(out.size()), out.data(), values.data(),
                               static_cast<MPI_Count>(in.size()), in.data(), result.data(), 1, MPI_DOUBLE, op,
                               comm, MPI_INFO_NULL);
}

constexpr std::size_t kPiece = std::size_t{1} << 24;  // elements of a message; fits the int count of MPI

// Sends a list to rank 0, whatever its length.
template <class T>
void send_list(const std::vector<T>& list, MPI_Datatype type, MPI_Comm comm) {
  const std::uint64_t length = list.size();
  PMPI_Send(&length, 1, MPI_UINT64_T, 0, 0, comm);
  for (std::size_t i = 0; i < list.size(); i += kPiece)
    PMPI_Send(&list[i], static_cast<int>(std::min(kPiece, list.size() - i)), type, 0, 0, comm);
}

template <class T>
std::vector<T> receive_list(int sender, MPI_Datatype type, MPI_Comm comm) {
  std::uint64_t length = 0;
  PMPI_Recv(&length, 1, MPI_UINT64_T, sender, 0, comm, MPI_STATUS_IGNORE);
  std::vector<T> list(length);
  for (std::size_t i = 0; i < list.size(); i += kPiece)
    PMPI_Recv(&list[i], static_cast<int>(std::min(kPiece, list.size() - i)), type, sender, 0, comm,
              MPI_STATUS_IGNORE);
  return list;
}

// One method with its state, for numbers of type T.
template <class T>
class Iteration {
 public:
  Iteration(const SharedGraph& graph, const PagerankOptions& o, const SparseMethod& method);
  PagerankResult run();

 private:
  bool allocate(std::uint64_t most_targets);
  int step(PagerankResult& result);
  double sum_at(std::size_t source, std::size_t& cursor) const;
  int settle(std::array<double, 2>& sums) const;
  int look_at_targets(PagerankResult& result) const;
  void reduce_times(PagerankResult& result) const;

  const SharedGraph& graph_;
  const LocalGraph& local_;
  const PagerankOptions& options_;
  const double vertices_;
  SparseCall call_;
  SparseBuffers buffers_;
  std::vector<T> out_, in_, vector_;
  std::vector<std::int64_t> union_indices_;
  std::vector<T> union_values_;
  std::vector<double> x_, weighted_;  // at the sources; weighted_ is x_ divided by the degrees
  // dangling_: rank of the vertices without outgoing edges; base_: what every vertex gets
  double dangling_ = 0, base_ = 0;
  double change_ = 0;
};

template <class T>
Iteration<T>::Iteration(const SharedGraph& graph, const PagerankOptions& o, const SparseMethod& method)
    : graph_(graph),
      local_(graph.local()),
      options_(o),
      vertices_(static_cast<double>(local_.vertices)),
      call_(method, SparseShape{local_.vertices, 1, o.element}, false, graph.comm()),
      out_(local_.targets.size()),
      in_(local_.sources.size()),
      x_(local_.sources.size(), 1 / vertices_),
      weighted_(x_.size()) {}

// The vectors that a method needs beside its own lists: for every vertex, or for every target of the graph.
template <class T>
bool Iteration<T>::allocate(std::uint64_t most_targets) try {
  const ResultForm form = form_of(call_.method());
  if (form == ResultForm::vector) vector_.resize(local_.vertices);
  if (form == ResultForm::list) {
    union_indices_.resize(most_targets);
    union_values_.resize(most_targets);
  }
  buffers_ = {local_.targets, local_.sources, out_.data(),         in_.data(),
              vector_.data(), union_indices_, union_values_.data()};
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// The reduced sum at a source; 0 if no rank has edges to it. Sources come in ascending order.
template <class T>
double Iteration<T>::sum_at(std::size_t source, std::size_t& cursor) const {
  switch (form_of(call_.method())) {
    case ResultForm::wanted: return static_cast<double>(in_[source]);
    case ResultForm::vector:
      return static_cast<double>(vector_[static_cast<std::size_t>(local_.sources[source])]);
    case ResultForm::list: break;
  }
  const std::size_t n = call_.union_count();
  while (cursor < n && union_indices_[cursor] < local_.sources[source]) ++cursor;
  const bool held = cursor < n && union_indices_[cursor] == local_.sources[source];
  return held ? static_cast<double>(union_values_[cursor]) : 0;
}

// Adds up over all ranks, each vertex once: the rank that vertices with outgoing edges hold, and its change.
template <class T>
int Iteration<T>::settle(std::array<double, 2>& sums) const {
  return PMPI_Allreduce(MPI_IN_PLACE, sums.data(), 2, MPI_DOUBLE, MPI_SUM, graph_.comm());
}

template <class T>
int Iteration<T>::step(PagerankResult& result) {
  const double start = now_s();
  for (std::size_t i = 0; i < x_.size(); ++i) weighted_[i] = x_[i] / graph_.degree(i);
  local_.multiply(weighted_, out_);
  const double reduce_start = now_s();
  if (const int error = call_(buffers_); error != MPI_SUCCESS) return error;
  result.reduce_s.push_back(now_s() - reduce_start);
  base_ = (1 - options_.damping + options_.damping * dangling_) / vertices_;
  std::array<double, 2> sums{};
  std::size_t cursor = 0;
  for (std::size_t i = 0; i < x_.size(); ++i) {
    const double next = base_ + options_.damping * sum_at(i, cursor);
    if (graph_.mine(i)) {
      sums[0] += next;
      sums[1] += std::abs(next - x_[i]);
    }
    x_[i] = next;
  }
  if (const int error = settle(sums); error != MPI_SUCCESS) return error;
  dangling_ = 1 - sums[0];
  change_ = sums[1];
  result.iteration_s.push_back(now_s() - start);
  ++result.iterations;
  return MPI_SUCCESS;
}

// A vertex that is no source on this rank gets its rank from the last sums, which are at the targets.
template <class T>
int Iteration<T>::look_at_targets(PagerankResult& result) const {
  const std::vector<double> sums(out_.begin(), out_.end());
  const int error =
      reduce_once(local_.targets, sums, local_.targets, result.target_ranks, MPI_SUM, graph_.comm());
  for (double& x : result.target_ranks) x = base_ + options_.damping * x;
  return error;
}

template <class T>
void Iteration<T>::reduce_times(PagerankResult& result) const {
  for (auto* series : {&result.iteration_s, &result.reduce_s})
    PMPI_Allreduce(MPI_IN_PLACE, series->data(), static_cast<int>(series->size()), MPI_DOUBLE, MPI_MAX,
                   graph_.comm());
  PMPI_Allreduce(MPI_IN_PLACE, &result.configure_s, 1, MPI_DOUBLE, MPI_MAX, graph_.comm());
}

template <class T>
PagerankResult Iteration<T>::run() {
  PagerankResult result;
  if (!all_agree(allocate(graph_.most_targets()), graph_.comm())) {
    result.error = MPI_ERR_NO_MEM;
    return result;
  }
  std::array<double, 2> sums{};
  for (std::size_t i = 0; i < x_.size(); ++i)
    if (graph_.mine(i)) sums[0] += x_[i];
  result.error = settle(sums);
  dangling_ = 1 - sums[0];
  dissemination_barrier(graph_.comm());
  const double start = now_s();
  if (result.error == MPI_SUCCESS) result.error = call_.configure(buffers_);
  result.configure_s = now_s() - start;
  dissemination_barrier(graph_.comm());
  const MPIQ_Stats before = call_.stats();
  while (result.error == MPI_SUCCESS && result.iterations < options_.iterations) {
    result.error = step(result);
    if (change_ < options_.tolerance) break;
  }
  if (result.error != MPI_SUCCESS) return result;
  const std::uint64_t sent = call_.stats().wire_bytes_sent - before.wire_bytes_sent;
  std::uint64_t most = sent, all = sent;
  PMPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, graph_.comm());
  PMPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_SUM, graph_.comm());
  if (call_.method().kind != SparseMethod::Kind::densify) {
    const auto n = static_cast<std::uint64_t>(result.iterations);
    result.sent_bytes_max = static_cast<std::int64_t>(most / n);
    result.sent_bytes_sum = static_cast<std::int64_t>(all / n);
  }
  reduce_times(result);
  if (options_.check || !options_.output.empty()) result.error = look_at_targets(result);
  result.other_rank = base_;
  result.source_ranks = std::move(x_);
  return result;
}

}  // namespace

SharedGraph::SharedGraph(LocalGraph graph, MPI_Comm comm) : local_(std::move(graph)), comm_(comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  error_ = reduce_once(local_.sources, local_.source_edges, local_.sources, degree_, MPI_SUM, comm);
  if (error_ != MPI_SUCCESS) return;
  const std::vector<double> me(local_.sources.size(), rank);
  std::vector<double> first;
  error_ = reduce_once(local_.sources, me, local_.sources, first, MPI_MIN, comm);
  if (error_ != MPI_SUCCESS) return;
  for (const double owner : first) mine_.push_back(owner == rank);
  most_targets_ = local_.targets.size();
  PMPI_Allreduce(MPI_IN_PLACE, &most_targets_, 1, MPI_UINT64_T, MPI_SUM, comm);
  most_targets_ = std::min(most_targets_, local_.vertices);
}

PagerankResult run_pagerank(const SharedGraph& graph, const PagerankOptions& o, const SparseMethod& method) {
  return o.element == kernels::Element::f64 ? Iteration<double>(graph, o, method).run()
                                            : Iteration<float>(graph, o, method).run();
}

std::vector<double> gather_ranks(const SharedGraph& graph, const PagerankResult& result) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(graph.comm(), &rank);
  PMPI_Comm_size(graph.comm(), &size);
  std::vector<double> all;
  if (rank == 0) all.assign(graph.local().vertices, result.other_rank);
  // The ranks at the sources come last, because the iteration went on with them.
  const auto collect = [&](const std::vector<std::int64_t>& vertices, const std::vector<double>& values) {
    if (rank != 0) {
      send_list(vertices, MPI_INT64_T, graph.comm());
      send_list(values, MPI_DOUBLE, graph.comm());
      return;
    }
    for (int sender = 0; sender < size; ++sender) {
      const auto at = sender == 0 ? vertices : receive_list<std::int64_t>(sender, MPI_INT64_T, graph.comm());
      const auto x = sender == 0 ? values : receive_list<double>(sender, MPI_DOUBLE, graph.comm());
      for (std::size_t i = 0; i < at.size(); ++i) all[static_cast<std::size_t>(at[i])] = x[i];
    }
  };
  collect(graph.local().targets, result.target_ranks);
  collect(graph.local().sources, result.source_ranks);
  return all;
}

double largest_difference(const SharedGraph& graph, const PagerankResult& result,
                          const std::vector<double>& reference) {
  std::vector<double> expected = reference;
  expected.resize(graph.local().vertices);
  for (std::size_t i = 0; i < expected.size(); i += kPiece)
    PMPI_Bcast(&expected[i], static_cast<int>(std::min(kPiece, expected.size() - i)), MPI_DOUBLE, 0,
               graph.comm());
  double largest = 0;
  const auto compare = [&](const std::vector<std::int64_t>& vertices, const std::vector<double>& x) {
    for (std::size_t i = 0; i < vertices.size(); ++i) {
      const double right = expected[static_cast<std::size_t>(vertices[i])];
      const double difference = std::abs(x[i] - right) / right;
      if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
    }
  };
  compare(graph.local().sources, result.source_ranks);
  compare(graph.local().targets, result.target_ranks);
  PMPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, graph.comm());
  return largest;
}

}  // namespace mq::bench
