// A union allreduce over threads as ranks: inputs, the caller's dense reduction, what each rank got, and what
// it should have got.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "sparse_allreduce/union.hpp"
#include "tests/engine/loopback.hpp"
#include "tests/sparse_allreduce/sparse_inputs.hpp"

namespace mq::test {

struct UnionCase {
  sparse::Algorithm algorithm = sparse::Algorithm::automatic;
  int ranks = 2;
  std::uint64_t size = 1000;
  double density = .1;
  Spread spread = Spread::uniform;
  std::size_t stride = 1;
  sparse::Op op = sparse::Op::sum;
  bool dense_output = false;
  ValueKind kind = ValueKind::integers;
  std::uint64_t max = ~std::uint64_t{0};  // of the list; default: as many as the result can have
  std::uint64_t delay_seed = 0;
  double timeout_s = 0;
  int dead = -1;  // a rank that does not take part
  std::uint64_t seed = 1;
};
inline std::string describe(const UnionCase& c) {
  return std::string(sparse::kAlgorithmNames[static_cast<std::size_t>(c.algorithm)]) + " ranks " +
         std::to_string(c.ranks) + " size " + std::to_string(c.size) + " density " +
         std::to_string(c.density) + " " + name(c.spread) + " stride " + std::to_string(c.stride) + " op " +
         std::to_string(static_cast<int>(c.op)) + (c.dense_output ? " vector" : " list") + " seed " +
         std::to_string(c.seed);
}

template <class T>
struct UnionInput {
  std::vector<std::uint64_t> indices;
  std::vector<T> values;
};
template <class T>
std::vector<UnionInput<T>> union_inputs(const UnionCase& c) {
  std::vector<UnionInput<T>> all;
  for (int r = 0; r < c.ranks; ++r) {
    const auto count = static_cast<std::uint64_t>(std::ceil(c.density * static_cast<double>(c.size)));
    all.push_back({sparse_indices({c.spread, c.size, count, r, c.ranks, c.seed}), {}});
    all.back().values = sparse_values<T>(c.kind, all.back().indices.size() * c.stride, c.seed, r);
  }
  return all;
}

template <class T>
struct UnionOutcome {
  Status status;
  sparse::UnionResult result;
  std::vector<std::uint64_t> indices;
  std::vector<T> values;
  Traffic traffic;
};

// Left fold in the order of the ranks, in type A: as a list, or as the vector it is.
template <class T, class A, class O>
UnionOutcome<T> union_expected_as(const UnionCase& c, const std::vector<UnionInput<T>>& inputs) {
  UnionOutcome<T> expected;
  std::vector<std::uint64_t>& all = expected.indices;
  for (const UnionInput<T>& in : inputs) all.insert(all.end(), in.indices.begin(), in.indices.end());
  detail::tidy(all);
  std::vector<A> sums(all.size() * c.stride);
  std::vector<char> met(all.size());
  for (const UnionInput<T>& in : inputs) {
    std::size_t at = 0;  // lists ascend
    for (std::size_t i = 0; i < in.indices.size(); ++i) {
      while (all[at] != in.indices[i]) ++at;
      for (std::size_t s = 0; s < c.stride; ++s) {
        const auto value = static_cast<A>(in.values[i * c.stride + s]);
        A& sum = sums[at * c.stride + s];
        sum = met[at] ? O::apply(sum, value) : value;
      }
      met[at] = 1;
    }
  }
  expected.values.assign((c.dense_output ? c.size : all.size()) * c.stride, O::template absent<T>());
  for (std::size_t at = 0; at < all.size(); ++at)
    for (std::size_t s = 0; s < c.stride; ++s)
      expected.values[(c.dense_output ? all[at] : at) * c.stride + s] =
          static_cast<T>(sums[at * c.stride + s]);
  if (c.dense_output) expected.indices.clear();
  return expected;
}
template <class T, class A = T>
UnionOutcome<T> union_expected(const UnionCase& c, const std::vector<UnionInput<T>>& inputs) {
  switch (c.op) {
    case sparse::Op::min: return union_expected_as<T, A, sparse::Min>(c, inputs);
    case sparse::Op::max: return union_expected_as<T, A, sparse::Max>(c, inputs);
    case sparse::Op::sum: break;
  }
  return union_expected_as<T, A, sparse::Sum>(c, inputs);
}

// Every rank's side of the call, with the caller's dense reduction. T: float or double.
template <class T>
std::vector<UnionOutcome<T>> run_union(const UnionCase& c, const std::vector<UnionInput<T>>& inputs,
                                       std::size_t* leaked = nullptr, Loopback::Tamper tamper = {});

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace mq::test
