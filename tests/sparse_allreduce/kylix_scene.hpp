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

struct Scene {
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
inline std::vector<std::byte> as_bytes(const Scene& scene, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * kernels::element_bytes(scene.element));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto f = static_cast<float>(values[i]);
    if (scene.element == kernels::Element::f64)
      std::memcpy(bytes.data() + i * 8, &values[i], 8);
    else
      std::memcpy(bytes.data() + i * 4, &f, 4);
  }
  return bytes;
}

inline double apply(Op op, double a, double b) {
  if (op == Op::sum) return a + b;
  return op == Op::min ? std::min(a, b) : std::max(a, b);
}

// By a dictionary of all that any rank of the first replica brings; values that are exact in any order.
inline std::vector<double> expected(const Scene& scene, int rank) {
  std::map<std::int64_t, std::vector<double>> all;
  for (int r = 0; r < scene.ranks / scene.replicas; ++r) {
    const Share& share = scene.shares[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < share.out.size(); ++i) {
      const double* v = share.values.data() + i * scene.stride;
      auto [at, fresh] = all.try_emplace(share.out[i], v, v + scene.stride);
      for (std::size_t s = 0; s < scene.stride && !fresh; ++s)
        at->second[s] = apply(scene.op, at->second[s], v[s]);
    }
  }
  const double none = scene.op == Op::sum ? 0 : scene.op == Op::min ? HUGE_VAL : -HUGE_VAL;
  std::vector<double> result;
  for (const std::int64_t index : scene.shares[static_cast<std::size_t>(rank)].in) {
    const auto at = all.find(index);
    for (std::size_t s = 0; s < scene.stride; ++s) result.push_back(at == all.end() ? none : at->second[s]);
  }
  return result;
}

using Reduction = sparse::KylixReduction<Loopback::Rank>;

// One rank's side.
class Player {
 public:
  Player(const Scene& scene, Loopback::Rank& comm)
      : scene_(scene), comm_(comm), share_(scene.shares[static_cast<std::size_t>(comm.rank())]) {
    out_bytes_ = as_bytes(scene, share_.values);
    in_bytes_.resize(share_.in.size() * scene.entry().bytes());
  }
  Status sets(sparse::IndexSet& out, sparse::IndexSet& in) {
    scratch.reset();
    MQ_TRY(make_index_set(share_.out, scene_.order, sparse::kIndexLimit, scratch, out));
    return make_index_set(share_.in, scene_.order, sparse::kIndexLimit, scratch, in);
  }
  Status configure() {
    sparse::IndexSet out, in;
    MQ_TRY(sets(out, in));
    return sparse::configure(comm_, scene_.settings(), out, share_.out.size(), in, share_.in.size(), scratch,
                             kylix, &reduction, traffic);
  }
  Status fused() {
    sparse::IndexSet out, in;
    MQ_TRY(sets(out, in));
    scribble();
    return sparse::configure_reduce(comm_, scene_.settings(), out, share_.out.size(), out_bytes_.data(), in,
                                    share_.in.size(), in_bytes_.data(), scratch, kylix, reduction, traffic);
  }
  Status reduce() {
    scribble();
    MQ_TRY(reduction.start(comm_, out_bytes_.data(), in_bytes_.data()));
    return finish(comm_, reduction);
  }
  // With replicas: until all that the others have sent has come, or for so long.
  void settle(double seconds) {
    const double end = now_s() + seconds;
    while (!reduction.quiet() && now_s() < end) {
      ASSERT_TRUE(reduction.receive_late(comm_).ok());
      comm_.idle();
    }
  }
  void set_values(const std::vector<double>& values) { out_bytes_ = as_bytes(scene_, values); }
  const std::vector<std::byte>& result() const { return in_bytes_; }

  sparse::Workspace scratch;
  sparse::KylixRoutes kylix;
  Reduction reduction;
  Traffic traffic;

 private:
  void scribble() { std::fill(in_bytes_.begin(), in_bytes_.end(), std::byte{0x5a}); }
  const Scene& scene_;
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
inline void fill(Scene& scene, Spread out, Spread in, std::uint64_t size, std::uint64_t out_count,
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
