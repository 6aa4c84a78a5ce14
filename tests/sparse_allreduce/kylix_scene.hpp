// Kylix on threads as ranks: what a rank brings, what it must get, and runs of all ranks.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sparse_allreduce/kylix.hpp"
#include "tests/engine/loopback.hpp"
#include "tests/sparse_allreduce/sparse_inputs.hpp"

namespace mq::test {

using sparse::Op;

// What one rank gives to and gets from a reduction, values as f64 whatever the element.
struct Share {
  std::vector<std::int64_t> out, in;
  std::vector<double> values;  // out.size() * stride
};

struct KylixScene {
  int ranks = 1;
  std::vector<int> degrees{};
  kernels::Element element = kernels::Element::f32;
  Op op = Op::sum;
  std::size_t stride = 1;
  int replicas = 1;
  double timeout_s = 60;
  sparse::Order order = sparse::Order::any;
  std::vector<Share> shares{};  // by rank

  sparse::Entry entry() const { return {element, op, stride}; }
  sparse::KylixSettings settings() const {
    sparse::KylixSettings s;
    s.degrees = degrees;
    s.entry = entry();
    s.replicas = replicas;
    s.call = 11;
    s.first_tag = 100;
    s.timeout_s = timeout_s;
    s.keep_lists = true;
    return s;
  }
};

inline std::vector<std::int64_t> as_signed(const std::vector<std::uint64_t>& indices) {
  return {indices.begin(), indices.end()};
}

// Bytes of values as the scene's element.
std::vector<std::byte> as_bytes(const KylixScene& scene, const std::vector<double>& values);

inline double apply(Op op, double a, double b) {
  if (op == Op::sum) return a + b;
  return op == Op::min ? std::min(a, b) : std::max(a, b);
}

// By a dictionary of all that any rank of the first replica brings; values that are exact in any order.
std::vector<double> expected(const KylixScene& scene, int rank);

using Reduction = sparse::KylixReduction<Loopback::Rank>;

// One rank's side.
class Player {
 public:
  Player(const KylixScene& scene, Loopback::Rank& comm)
      : scene_(scene), comm_(comm), share_(scene.shares[static_cast<std::size_t>(comm.rank())]) {
    out_bytes_ = as_bytes(scene, share_.values);
    in_bytes_.resize(share_.in.size() * scene.entry().bytes());
  }
  Status sets(sparse::IndexSet& out, sparse::IndexSet& in);
  Status configure();
  Status fused();
  Status reduce();
  // With replicas: until all that the others have sent has come, or for so long.
  void settle(double seconds);
  void set_values(const std::vector<double>& values) { out_bytes_ = as_bytes(scene_, values); }
  const std::vector<std::byte>& result() const { return in_bytes_; }

  sparse::Workspace scratch;
  sparse::KylixRoutes kylix;
  Reduction reduction;
  Traffic traffic;

 private:
  void scribble() { std::fill(in_bytes_.begin(), in_bytes_.end(), std::byte{0x5a}); }
  const KylixScene& scene_;
  Loopback::Rank& comm_;
  const Share& share_;
  std::vector<std::byte> out_bytes_, in_bytes_;
};

// All vectors of factors of at least 2, in every order, whose product is usable by this many ranks.
inline void degree_vectors(int least, int most, std::vector<int>& so_far, int product,
                           std::vector<std::vector<int>>& all) {
  if (product >= least && !so_far.empty()) all.push_back(so_far);
  for (int d = 2; product * d <= most; ++d) {
    so_far.push_back(d);
    degree_vectors(least, most, so_far, product * d, all);
    so_far.pop_back();
  }
}
inline std::vector<std::vector<int>> degree_vectors(int ranks) {
  if (ranks == 1) return {{1}};
  std::vector<int> so_far;
  std::vector<std::vector<int>> all;
  degree_vectors(ranks / 2 + 1, ranks, so_far, 1, all);
  return all;
}

inline std::string text(const std::vector<int>& degrees) {
  std::string text;
  for (const int d : degrees) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

// Lists of a spread for every rank; integers as values.
inline void fill(KylixScene& scene, Spread out, Spread in, std::uint64_t size, std::uint64_t out_count,
                 std::uint64_t in_count, std::uint64_t seed, ValueKind kind = ValueKind::integers) {
  scene.shares.clear();
  const int each = scene.ranks / scene.replicas;
  for (int rank = 0; rank < scene.ranks; ++rank) {
    Share share;
    share.out = as_signed(sparse_indices({out, size, out_count, rank % each, each, seed}));
    share.in = as_signed(sparse_indices({in, size, in_count, rank % each, each, seed + 1}));
    share.values = sparse_values<double>(kind, share.out.size() * scene.stride, seed, rank % each);
    scene.shares.push_back(std::move(share));
  }
}

}  // namespace mq::test
