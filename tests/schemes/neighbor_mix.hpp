// What tests of MPIQ_Neighbor_mix share: graphs in which all ranks can reach each other, and the iteration in
// closed form.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {

using Edges = std::vector<std::vector<int>>;  // by rank, the out-neighbours

class NeighborMix : public Api {
 protected:
  // All ranks can reach each other in these graphs.
  Edges ring() const {
    Edges edges(static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r)
      if (size > 1) edges[static_cast<std::size_t>(r)] = {(r + 1) % size};
    return edges;
  }
  Edges ring_with_chords() const {
    Edges edges = ring();
    for (int r = 0; r < size; r += 2)
      if (size > 2) edges[static_cast<std::size_t>(r)].push_back((r + 2) % size);
    return edges;
  }
  Edges symmetric_ring() const {
    Edges edges = ring();
    for (int r = 0; r < size; ++r)
      if (size > 2) edges[static_cast<std::size_t>(r)].push_back((r + size - 1) % size);
    return edges;
  }
  Edges complete() const {
    Edges edges(static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r)
      for (int to = 0; to < size; ++to)
        if (to != r) edges[static_cast<std::size_t>(r)].push_back(to);
    return edges;
  }
  std::vector<std::pair<const char*, Edges>> graphs() const {
    return {{"ring", ring()},
            {"chords", ring_with_chords()},
            {"symmetric", symmetric_ring()},
            {"complete", complete()}};
  }
  MPI_Comm comm_of(const Edges& edges) const {
    std::vector<int> in;
    for (int r = 0; r < size; ++r)
      for (const int to : edges[static_cast<std::size_t>(r)])
        if (to == rank) in.push_back(r);
    const std::vector<int>& out = edges[static_cast<std::size_t>(rank)];
    MPI_Comm graph = MPI_COMM_NULL;
    MPI_Dist_graph_create_adjacent(comm, static_cast<int>(in.size()), in.data(), MPI_UNWEIGHTED,
                                   static_cast<int>(out.size()), out.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &graph);
    MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN);
    return graph;
  }
  template <class T>
  static int mix(MPI_Comm on, std::vector<T>& x, double& weight, double gamma,
                 const std::string& method = "raw", const char* key = "k") {
    return MPIQ_Neighbor_mix(x.data(), &weight, static_cast<MPI_Count>(x.size()), mpi_type<T>(), gamma, on,
                             Info{{"mpiq_method", method}, {"mpiq_key", key}});
  }
  template <class T>
  std::vector<T> of_rank(int r, std::size_t n) const {
    return make_input<T>(Input::normal, n, seed() + static_cast<std::uint64_t>(r));
  }
  template <class T>
  std::vector<double> mean(const std::vector<T>& x) const {
    std::vector<double> sum(x.begin(), x.end());
    MPI_Allreduce(MPI_IN_PLACE, sum.data(), static_cast<int>(sum.size()), MPI_DOUBLE, MPI_SUM, comm);
    for (double& v : sum) v /= size;
    return sum;
  }
  // The greatest distance of a rank's estimate from the mean, relative to the mean.
  template <class T>
  double distance(const std::vector<T>& x, double weight, const std::vector<double>& of) const {
    std::vector<double> z(x.begin(), x.end());
    for (double& v : z) v /= weight;
    double mine = relative_error(z, of), most = 0;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
    return most;
  }
  double sum_of(double weight) const {
    double sum = 0;
    MPI_Allreduce(&weight, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    return sum;
  }
};

// The iteration of all ranks without messages and codecs. T: the type that it computes in.
template <class T>
struct Closed {
  std::vector<std::vector<T>> x;
  std::vector<double> y;
  void round(const Edges& edges, T gamma) {
    const std::size_t p = x.size(), n = x[0].size();
    std::vector<std::vector<T>> sums(p, std::vector<T>(n));
    std::vector<double> weights(p);
    for (std::size_t j = 0; j < p; ++j) {
      std::vector<int> receivers = edges[j];
      receivers.push_back(static_cast<int>(j));
      for (const int i : receivers) {
        weights[static_cast<std::size_t>(i)] += y[j] / static_cast<double>(receivers.size());
        for (std::size_t k = 0; k < n; ++k)
          sums[static_cast<std::size_t>(i)][k] += x[j][k] / static_cast<T>(receivers.size());
      }
    }
    for (std::size_t i = 0; i < p; ++i) {
      y[i] += static_cast<double>(gamma) * (weights[i] - y[i]);
      for (std::size_t k = 0; k < n; ++k) x[i][k] += gamma * (sums[i][k] - x[i][k]);
    }
  }
};

}  // namespace mq::test
