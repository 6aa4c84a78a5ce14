#include "tests/sparse_allreduce/union_scene.hpp"

#include <barrier>

namespace mq::test {
namespace {

// The reduction of whole vectors that an MPI library would do: a left fold.
template <class T>
class DenseReduction {
 public:
  DenseReduction(int ranks, sparse::Op op)
      : barrier_(ranks), vectors_(static_cast<std::size_t>(ranks)), op_(op) {}
  Status operator()(int rank, void* inout, std::uint64_t elements) {
    vectors_[static_cast<std::size_t>(rank)] = static_cast<T*>(inout);
    barrier_.arrive_and_wait();
    std::vector<T> sum(vectors_[0], vectors_[0] + elements);
    for (std::size_t r = 1; r < vectors_.size(); ++r)
      for (std::uint64_t i = 0; i < elements; ++i)
        sum[i] = op_ == sparse::Op::sum   ? sparse::Sum::apply(sum[i], vectors_[r][i])
                 : op_ == sparse::Op::min ? sparse::Min::apply(sum[i], vectors_[r][i])
                                          : sparse::Max::apply(sum[i], vectors_[r][i]);
    barrier_.arrive_and_wait();
    std::copy(sum.begin(), sum.end(), static_cast<T*>(inout));
    return {};
  }

 private:
  std::barrier<> barrier_;
  std::vector<T*> vectors_;
  sparse::Op op_;
};

}  // namespace

template <class T>
std::vector<UnionOutcome<T>> run_union(const UnionCase& c, const std::vector<UnionInput<T>>& inputs,
                                       std::size_t* leaked, Loopback::Tamper tamper) {
  std::vector<UnionOutcome<T>> outcomes(inputs.size());
  DenseReduction<T> dense(c.ranks, c.op);
  std::uint64_t most = 0, all = 0;
  for (const UnionInput<T>& in : inputs) {
    most = std::max<std::uint64_t>(most, in.indices.size());
    all += in.indices.size();
  }
  const std::uint64_t max = std::min(c.max, std::min(all, c.size));
  Loopback net(c.ranks, c.delay_seed, std::move(tamper));
  net.run([&](Loopback::Rank& comm) {
    if (comm.rank() == c.dead) return;
    const auto r = static_cast<std::size_t>(comm.rank());
    UnionOutcome<T>& out = outcomes[r];
    out.indices.resize(c.dense_output ? 0 : max);
    out.values.resize((c.dense_output ? c.size : max) * c.stride);
    sparse::UnionJob job;
    job.entry = {sizeof(T) == 8 ? kernels::Element::f64 : kernels::Element::f32, c.op, c.stride};
    job.size = c.size;
    job.list = {inputs[r].indices, reinterpret_cast<const std::byte*>(inputs[r].values.data())};
    job.algorithm = c.algorithm;
    job.most_entries = most;
    job.call = 77;
    job.first_tag = 5;
    job.timeout_s = c.timeout_s;
    job.output = {c.dense_output, out.indices.data(), reinterpret_cast<std::byte*>(out.values.data()), max};
    sparse::Workspace memory;
    const auto reduce = [&](void* inout, std::uint64_t elements) {
      return dense(comm.rank(), inout, elements);
    };
    out.status = sparse::union_allreduce(comm, job, memory, out.traffic, reduce, out.result);
    if (out.status.ok() && !c.dense_output) {
      out.indices.resize(out.result.count);
      out.values.resize(out.result.count * c.stride);
    }
  });
  if (leaked) *leaked = net.leaked();
  return outcomes;
}

#define MQ_UNION_OF(T)                                                                                 \
  template std::vector<UnionOutcome<T>> run_union(const UnionCase&, const std::vector<UnionInput<T>>&, \
                                                  std::size_t*, Loopback::Tamper);
MQ_UNION_OF(float)
MQ_UNION_OF(double)
#undef MQ_UNION_OF

}  // namespace mq::test
