// The mirrors of MPIQ_Neighbor_mix over thousands of rounds, with ranks in one process: the sum of all
// vectors stays as well as it does where each rank reads the others' vectors and computes in the same type.
// Each round rounds, and these errors may add up like a random walk, but not faster. And which gamma a codec
// bears.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/schemes/mirrors.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kN = 50;
using Edges = std::vector<std::vector<std::size_t>>;  // by rank, the out-neighbours
const Edges kRing{{1}, {2}, {0}}, kChord{{1, 2}, {2}, {0}}, kComplete{{1, 2}, {0, 2}, {0, 1}};

template <class T>
std::vector<T> first_vector(std::size_t rank, std::size_t n = kN) {
  return make_input<T>(Input::normal, n, seed() + rank);
}

// Rounds as neighbor_mix.cpp does them.
template <class T>
class Compressed {
 public:
  // k: of topk.
  Compressed(const Edges& edges, const char* codec, double k = 0, std::size_t n = kN)
      : n_(n), edges_(edges), codec_(*kernels::find_codec(codec)), params_(kernels::preset_params(codec_)) {
    if (k > 0) params_.value[0] = k;
    for (std::size_t r = 0; r < edges.size(); ++r) {
      x.push_back(first_vector<T>(r, n_));
      y.push_back(1);
      Mirrors of;
      for (std::size_t j = 0; j < edges.size(); ++j) of.sources += sends(j, r);
      of.count = n_;
      EXPECT_TRUE(of.memory.allocate_zeroed((of.sources + 1) * n_ * sizeof(T)));
      mirrors_.push_back(std::move(of));
    }
  }
  void round(double gamma) {
    std::vector<std::vector<T>> news;
    for (std::size_t r = 0; r < x.size(); ++r) news.push_back(send(r));
    ++round_;
    std::vector<double> before = y;
    for (std::size_t r = 0; r < x.size(); ++r) {
      std::vector<double> given;
      double change = -out(r) * (share(r) * before[r]);
      for (std::size_t j = 0; j < x.size(); ++j)
        if (sends(j, r)) {
          learn(mirrors_[r].template of<T>(given.size()), news[j].data(), n_);
          given.push_back(share(j));
          change += share(j) * before[j];
        }
      step(x[r].data(), mirrors_[r], given.data(), share(r), out(r), gamma);
      y[r] += gamma * change;
    }
  }
  std::vector<std::vector<T>> x;
  std::vector<double> y;

 private:
  std::size_t n_;
  bool sends(std::size_t from, std::size_t to) const {
    return std::find(edges_[from].begin(), edges_[from].end(), to) != edges_[from].end();
  }
  double out(std::size_t rank) const { return static_cast<double>(edges_[rank].size()); }
  double share(std::size_t rank) const { return 1 / (out(rank) + 1); }
  // What the rank's message says.
  std::vector<T> send(std::size_t r) {
    std::vector<T> news(n_), decoded(n_);
    T* const own = mirrors_[r].template own<T>();
    find_news(x[r].data(), own, n_, news.data());
    constexpr kernels::Element element = sizeof(T) == 4 ? kernels::Element::f32 : kernels::Element::f64;
    const kernels::CodecOps* const ops = codec_.ops(element, kernels::best_isa());
    std::vector<std::byte> wire(codec_.wire_bound(n_, element, params_));
    kernels::EncodeArgs encode;
    encode.x = news.data();
    encode.n = n_;
    encode.params = params_;
    encode.wire = wire.data();
    encode.noise = {static_cast<std::uint64_t>(round_), r, 0, static_cast<int>(x.size())};
    kernels::DecodeArgs decode;
    decode.wire = wire.data();
    decode.wire_bytes = ops->encode(encode).bytes;
    decode.n = n_;
    decode.params = params_;
    decode.x = decoded.data();
    decode.noise = encode.noise;
    EXPECT_EQ(ops->decode(decode), kernels::Decoded::ok);
    learn(own, decoded.data(), n_);
    return decoded;
  }
  const Edges& edges_;
  const kernels::Codec& codec_;
  kernels::Params params_;
  std::vector<Mirrors> mirrors_;
  int round_ = 0;
};

// The same without codec and mirrors.
template <class T>
class Reference {
 public:
  explicit Reference(const Edges& edges) : edges_(edges) {
    for (std::size_t r = 0; r < edges.size(); ++r) x.push_back(first_vector<T>(r));
  }
  void round(double gamma) {
    const auto old_x = x;
    const auto old_y = y;
    for (std::size_t i = 0; i < kN; ++i) {
      std::vector<T> sum(x.size());
      for (std::size_t j = 0; j < x.size(); ++j) {
        const T given = old_x[j][i] / static_cast<T>(edges_[j].size() + 1);
        sum[j] += given;
        for (const std::size_t to : edges_[j]) sum[to] += given;
      }
      for (std::size_t r = 0; r < x.size(); ++r) x[r][i] += static_cast<T>(gamma) * (sum[r] - old_x[r][i]);
    }
    for (std::size_t j = 0; j < y.size(); ++j) {
      const auto out = static_cast<double>(edges_[j].size());
      y[j] -= gamma * old_y[j] * out / (out + 1);
      for (const std::size_t to : edges_[j]) y[to] += gamma * old_y[j] / (out + 1);
    }
  }
  std::vector<std::vector<T>> x;
  std::vector<double> y = std::vector<double>(kRanks, 1);

 private:
  const Edges& edges_;
};

// The sums over ranks and programs, in long double.
class Sums {
 public:
  template <class T>
  void add(const std::vector<std::vector<T>>& x, long double sign = 1) {
    for (const auto& v : x)
      for (std::size_t i = 0; i < kN; ++i) sum_[i] += sign * static_cast<long double>(v[i]);
  }
  // The greatest distance of x / y from the mean.
  template <class T>
  double distance(const std::vector<std::vector<T>>& x, const std::vector<double>& y) const {
    long double most = 0;
    for (std::size_t r = 0; r < x.size(); ++r)
      for (std::size_t i = 0; i < kN; ++i)
        most = std::max(most, std::abs(static_cast<long double>(x[r][i]) / static_cast<long double>(y[r]) -
                                       sum_[i] / kRanks));
    return static_cast<double>(most);
  }
  // The greatest distance of the mean of x from the mean that it should have.
  template <class T>
  double lost(const std::vector<std::vector<T>>& x) const {
    Sums left = *this;
    left.add(x, -1);
    long double most = 0;
    for (const long double v : left.sum_) most = std::max(most, std::abs(v));
    return static_cast<double>(most / kRanks);
  }

 private:
  std::vector<long double> sum_ = std::vector<long double>(kN);
};

template <class T>
void expect_rest(const Edges& edges, const char* graph) {
  Compressed<T> mixed(edges, "raw");
  Reference<T> reference(edges);
  Sums goal;
  goal.add(mixed.x);
  for (const int rounds : {100, 900, 4000}) {
    for (int round = 0; round < rounds; ++round) {
      mixed.round(1);
      reference.round(1);
    }
    const double now = goal.distance(mixed.x, mixed.y), then = goal.distance(reference.x, reference.y);
    EXPECT_LE(now, 2 * then + 4 * static_cast<double>(std::numeric_limits<T>::epsilon()))
        << graph << ", " << sizeof(T) << " bytes an element, after further " << rounds << " rounds";
  }
}

TEST(NeighborDrift, vectors_at_rest_stay_at_the_mean) {
  for (const auto& [name, edges] : {std::pair{"ring", kRing}, {"chord", kChord}, {"complete", kComplete}}) {
    expect_rest<float>(edges, name);
    expect_rest<double>(edges, name);
  }
}

// A step of an optimizer with noise, on each rank before each round.
template <class T>
void change(std::vector<std::vector<T>>& x, int round) {
  for (std::size_t r = 0; r < x.size(); ++r) {
    const auto noise = fresh_input<T>(Input::normal, kN, static_cast<std::uint64_t>(kRanks * round) + r);
    for (std::size_t i = 0; i < kN; ++i) x[r][i] -= static_cast<T>(0.05) * (x[r][i] + noise[i]);
  }
}

template <class T>
void expect_nothing_lost(const char* codec, double gamma) {
  Compressed<T> mixed(kChord, codec);
  Reference<T> reference(kChord);
  Sums of_mixed, of_reference;
  of_mixed.add(mixed.x), of_reference.add(reference.x);
  for (int round = 0; round < (kSanitized ? 500 : 10000); ++round) {
    of_mixed.add(mixed.x, -1), of_reference.add(reference.x, -1);
    change(mixed.x, round), change(reference.x, round);
    of_mixed.add(mixed.x), of_reference.add(reference.x);
    mixed.round(gamma), reference.round(gamma);
  }
  const double now = of_mixed.lost(mixed.x), then = of_reference.lost(reference.x);
  // Vectors that wait for a coarse codec are longer, and so are the errors of their rounding.
  EXPECT_LE(now, 8 * then) << codec << ", " << sizeof(T) << " bytes an element";
}

TEST(NeighborDrift, vectors_that_change_in_each_round_lose_nothing) {
  expect_nothing_lost<float>("raw", 1);
  expect_nothing_lost<float>("int8", 0.5);
  expect_nothing_lost<float>("topk", 0.02);
  expect_nothing_lost<double>("raw", 1);
  expect_nothing_lost<double>("topk", 0.02);
}

// The Euclidean distance of all x / y from their mean.
double spread(const Compressed<double>& of) {
  double squares = 0;
  const std::size_t ranks = of.x.size();
  for (std::size_t i = 0; i < of.x[0].size(); ++i) {
    double mean = 0;
    for (const auto& x : of.x) mean += x[i] / static_cast<double>(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
      squares += (of.x[r][i] / of.y[r] - mean) * (of.x[r][i] / of.y[r] - mean);
  }
  return std::sqrt(squares);
}
Edges ring_of(std::size_t ranks) {
  Edges edges;
  for (std::size_t r = 0; r < ranks; ++r) edges.push_back({(r + 1) % ranks});
  return edges;
}

// The table of docs/library.md: 8 ranks in a ring, 300 rounds. most: of the first distance, what may be left.
TEST(NeighborGamma, codecs_converge_and_diverge_where_the_page_says) {
  if (kSanitized) return;  // the rounds above run the same lines
  struct Way {
    const char* codec;
    double k, gamma, most;
  };
  const Edges edges = ring_of(8);
  const auto left = [&](const Way& way) {
    Compressed<double> mixed(edges, way.codec, way.k, 2048);
    const double first = spread(mixed);
    for (int round = 0; round < 300; ++round) mixed.round(way.gamma);
    return spread(mixed) / first;
  };
  for (const Way& way : {Way{"raw", 0, 1, 1e-9},
                         {"int8", 0, 1, 1e-9},
                         {"int4", 0, 1, 1e-9},
                         {"mxfp4", 0, 1, 1e-8},
                         {"topk", 0.25, 0.4, 1e-3},
                         {"topk", 0.1, 0.15, 0.03},
                         {"topk", 0.01, 0.02, 0.5},
                         {"onebit", 0, 0.02, 0.4}})
    EXPECT_LT(left(way), way.most) << way.codec << " " << way.k << ", gamma " << way.gamma;
  for (const Way& way : {Way{"topk", 0.1, 0.8, 0}, {"topk", 0.01, 0.4, 0}, {"onebit", 0, 0.4, 0}})
    EXPECT_GT(left(way), 5) << way.codec << " " << way.k << ", gamma " << way.gamma;
}

}  // namespace
}  // namespace mq::test
