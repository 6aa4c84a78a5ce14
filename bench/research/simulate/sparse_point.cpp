#include "bench/research/simulate/sparse_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "bench/sparse_data.hpp"

namespace mq::sim {
namespace {

using Kind = bench::SparseMethod::Kind;

std::vector<std::int64_t> union_of(const std::vector<std::vector<std::int64_t>>& lists) {
  std::vector<std::int64_t> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

Result<SparseReduction> reduction_of(const bench::Options& options, const bench::Point& point,
                                     const bench::SparseMethod& method, const ListCosts& costs) {
  if (method.kind == Kind::densify)
    return Status{Code::bad_argument, "there is no MPI here: raw/PLAN reduces the dense vector"};
  if (point.stride != 1)
    return Status{Code::bad_argument, "costs are of entries with one element: --stride 1"};
  SparseReduction r;
  r.kind = method.kind == Kind::make_union ? SparseReduction::Kind::make_union
           : method.kind == Kind::kylix    ? SparseReduction::Kind::kylix
                                           : SparseReduction::Kind::fused;
  for (std::size_t i = 0; i < std::size(sparse::kAlgorithmNames); ++i)
    if (sparse::kAlgorithmNames[i] == method.algorithm) r.algorithm = static_cast<sparse::Algorithm>(i);
  r.dense_result = method.dense_result;
  if (!method.degrees.empty()) {
    auto degrees = bench::parse_degrees(method.degrees);
    MQ_TRY(degrees.status());
    r.degrees = std::move(*degrees);
  }
  r.fresh = options.sparse->fresh;
  r.element = point.element;
  r.size = point.count;
  r.costs = costs;
  r.out.resize(static_cast<std::size_t>(point.ranks));
  if (method.butterfly()) r.in.resize(r.out.size());
  return r;
}

void make_lists(const bench::Options& options, const bench::Point& point, SparseReduction& r) {
  const bench::SupportGenerator support(point.support, point.count);
  for (std::size_t rank = 0; rank < r.out.size(); ++rank)
    r.out[rank] = support.indices(static_cast<int>(rank), 0);
  if (r.in.empty()) return;
  r.in = r.out;
  if (options.sparse->want_union) std::fill(r.in.begin(), r.in.end(), union_of(r.out));
}

bench::InputRow input_of_lists(const bench::Options& options, const bench::Point& point) {
  const auto indices = bench::SupportGenerator(point.support, point.count).indices(0, 0);
  bench::InputRow row;
  row.distribution = to_string(point.support);
  row.params =
      fmt::format("dtype={},density={},stride=1,values=ones", name(point.element), point.support.density);
  row.seed = options.data.seed;
  row.rho = point.support.support == bench::Support::correlated ? point.support.parameter : 0;
  row.exp_min = row.exp_max = 0;
  row.zero_frac = 1 - static_cast<double>(indices.size()) / static_cast<double>(point.count);
  return row;
}

}  // namespace mq::sim
