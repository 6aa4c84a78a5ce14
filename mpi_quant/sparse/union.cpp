// MPIQ_Sparse_allreduce_union, from its arguments to its result.

#include "sparse_allreduce/union.hpp"

#include <optional>
#include <utility>

#include "mpi_quant.h"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/sparse/blocking.hpp"
#include "mpi_quant/sparse/options.hpp"
#include "sparse_allreduce/values.hpp"

namespace mq {
namespace {

struct Arguments {
  MPI_Count count;
  const std::int64_t* indices;
  const void* values;
  MPI_Count size, max;
  std::int64_t* result_indices;
  void* result_values;
  MPI_Count* result_count;
  MPI_Count stride;
  MPI_Datatype datatype;
  MPI_Op op;
};

Status check_arguments(const Arguments& a) {
  const auto bad = [](const char* what) { return Status{Code::bad_argument, what}; };
  if (a.count < 0) return bad("count is negative");
  if (a.size < 0) return bad("size is negative");
  if (a.max < 0) return bad("max is negative");
  if (a.stride < 1) return bad("stride is less than 1");
  if (a.stride > kMostStride) return bad("stride is more than 2^28");
  if (a.count > 0 && a.indices == nullptr) return bad("indices is NULL");
  if (a.count > 0 && a.values == nullptr) return bad("values is NULL");
  if (a.max > 0 && a.result_values == nullptr) return bad("result_values is NULL");
  if (a.result_indices != nullptr && a.result_count == nullptr) return bad("result_count is NULL");
  if (a.result_indices == nullptr && a.max < a.size)
    return bad("max is less than size, but the result is the whole vector");
  return {};
}

// Collects every error that this rank can find alone; it becomes the local error.
Status prepare(const Arguments& a, const SparseOptions& options, BlockingSparse& call, sparse::UnionJob& job,
               std::optional<sparse::UnionCall<ProgressComm>>& reduction) {
  try {
    if (options.algorithm == sparse::Algorithm::automatic) call.make_room();
    reduction.emplace(call.comm(), job, call.memory(), call.traffic());
    MQ_TRY(options.local_error);
    MQ_TRY(check_arguments(a));
    MQ_TRY(check_host_memory({a.indices, a.values, a.result_indices, a.result_values}));
    MQ_TRY(read_type(a.datatype, a.op, job.entry.element, job.entry.op));
    job.entry.stride = static_cast<std::size_t>(a.stride);
    sparse::IndexSet set;
    MQ_TRY(sparse::make_index_set({a.indices, static_cast<std::size_t>(a.count)}, options.order,
                                  static_cast<std::uint64_t>(a.size), call.memory(), set));
    job.list = {set.indices, static_cast<const std::byte*>(a.values)};
    if (!set.position.empty())
      job.list.values = sparse::in_order(job.entry, set, job.list.values, call.memory());
    return {};
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, "out of memory"};
  }
}

Signature sign(const Arguments& a, const SparseOptions& options, const sparse::UnionJob& job) {
  Signature signature;
  signature.codec = kSparseUnion;
  signature.count = static_cast<std::uint64_t>(a.size);
  signature.element = static_cast<std::uint8_t>(job.entry.element);
  signature.params_hash = Hash{}
                              .add(options.hash())
                              .add(job.entry.op)
                              .add(static_cast<std::int64_t>(a.stride))
                              .add(static_cast<std::int64_t>(a.max))
                              .add(a.result_indices != nullptr)
                              .value();
  return signature;
}

// All ranks begin the reduction together, when they have agreed. So the slowest one's time counts.
constexpr TimedRank kTimed = TimedRank::slowest;

// The algorithm of a call that leaves it to the library, by what the calls before have taken. last_call: the
// agreed time of the last one.
Status choose_algorithm(BlockingSparse& call, float last_call, sparse::UnionJob& job) {
  job.algorithm = sparse::Algorithm::allgather;
  if (call.state() == nullptr) return {};
  sparse::Network network;
  MQ_TRY(call.network(network));
  sparse::UnionChooser& chooser = sparse_state(*call.state()).unions;
  chooser.heard(seconds_of(last_call, kTimed));
  job.algorithm =
      chooser.next({job.size, job.entry, job.most_entries, call.comm().size(), job.output.dense}, network);
  return {};
}

Status run(const Arguments& a, const SparseOptions& options, BlockingSparse& call) {
  const bool chooses = options.algorithm == sparse::Algorithm::automatic;
  double none = 0;  // on one rank
  double& last_s = call.state() != nullptr ? sparse_state(*call.state()).last_union_s : none;
  sparse::UnionJob job;
  std::optional<sparse::UnionCall<ProgressComm>> reduction;
  const Status local_error = prepare(a, options, call, job, reduction);
  Maxima numbers{.measured = {static_cast<double>(job.list.indices.size())}};
  if (chooses) numbers.heard.call = brought(std::exchange(last_s, 0), kTimed);
  MQ_TRY(call.agree(sign(a, options, job), local_error, numbers));
  job.size = static_cast<std::uint64_t>(a.size);
  job.most_entries = static_cast<std::uint64_t>(numbers.measured[0]);
  job.call = call.id();
  job.first_tag = call.first_tag();
  job.timeout_s = options.timeout_s;
  job.output = {a.result_indices == nullptr, reinterpret_cast<std::uint64_t*>(a.result_indices),
                static_cast<std::byte*>(a.result_values), static_cast<std::uint64_t>(a.max)};
  job.algorithm = options.algorithm;
  if (chooses) MQ_TRY(choose_algorithm(call, numbers.heard.call, job));
  if (!can_reduce(job.algorithm, job.entry.op)) job.algorithm = sparse::Algorithm::split;
  const double begin_s = now_s();
  sparse::UnionResult result;
  MQ_TRY(sparse::union_allreduce(
      *reduction,
      [&](void* vector, std::size_t elements) { return call.dense(vector, elements, a.datatype, a.op); },
      result));
  if (chooses) last_s = now_s() - begin_s;
  if (a.result_count != nullptr) *a.result_count = static_cast<MPI_Count>(result.count);
  return {};
}

Status reduce_union(const Arguments& a, MPI_Comm comm, MPI_Info info) {
  const SparseOptions options = read_sparse_options(info, SparseUse::all);
  BlockingSparse call;
  MQ_TRY(call.begin(comm, options.timeout_s));
  return call.end(run(a, options, call));
}

}  // namespace
}  // namespace mq

int MPIQ_Sparse_allreduce_union(MPI_Count count, const int64_t* indices, const void* values, MPI_Count size,
                                MPI_Count max, int64_t* result_indices, void* result_values,
                                MPI_Count* result_count, MPI_Count stride, MPI_Datatype datatype, MPI_Op op,
                                MPI_Comm comm, MPI_Info info) {
  using namespace mq;
  const Arguments a{count,         indices,      values, size,     max, result_indices,
                    result_values, result_count, stride, datatype, op};
  return raise(comm, guarded_status([&] { return reduce_union(a, comm, info); }));
}
