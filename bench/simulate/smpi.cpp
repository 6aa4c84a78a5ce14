// The library's agreement and executor over an MPI, without the rest of the library: what scripts/smpi runs on SimGrid's simulated
// MPI, to compare with mpiq-simulate. It is no part of the build, because it needs SimGrid.
//
//   smpi RATES SEGMENTS METHOD COUNT ...    prints for each METHOD and COUNT: METHOD COUNT SECONDS
//
// SEGMENTS of a call are in flight, or as many as the library chooses if that is 0.
//
// SimGrid's clock stands still while a rank computes or polls. So each codec step says how long it takes (smpi_execute), by the
// rates of the file RATES, and a rank that has nothing to do waits for one of the requests that it has tested in vain. The steps
// are carried out, on real vectors.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "bench/simulate/call.hpp"
#include "bench/simulate/rates.hpp"
#include "bench/simulate/steps.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/core/call_order.hpp"
#include "mpi_quant/engine/agree.hpp"
#include "mpi_quant/engine/execute.hpp"
#include "mpi_quant/plan/cost.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace {

using namespace mq;

class WaitingComm {
 public:
  struct Request {
    MPI_Request mpi = MPI_REQUEST_NULL;
    std::size_t bytes = 0;
  };
  WaitingComm() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  Status send(int to, int tag, std::span<const std::byte> out, Request& request) {
    request = {};
    MPI_Isend(out.data(), static_cast<int>(out.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD, &request.mpi);
    return {};
  }
  Status receive(int from, int tag, std::span<std::byte> in, Request& request) {
    request = {};
    MPI_Irecv(in.data(), static_cast<int>(in.size()), MPI_BYTE, from, tag, MPI_COMM_WORLD, &request.mpi);
    return {};
  }
  Status test(Request& request, bool& done, std::size_t& bytes) {
    int flag = 1;
    MPI_Status status;
    if (request.mpi != MPI_REQUEST_NULL) {
      MPI_Test(&request.mpi, &flag, &status);
      if (flag != 0) count(request, status);
    }
    done = flag != 0;
    if (done)
      bytes = request.bytes;
    else if (std::find(tested_.begin(), tested_.end(), &request) == tested_.end())
      tested_.push_back(&request);
    return {};
  }
  void idle() {
    std::vector<MPI_Request> handles;
    std::erase_if(tested_, [](const Request* r) { return r->mpi == MPI_REQUEST_NULL; });
    for (const Request* r : tested_) handles.push_back(r->mpi);
    int index = MPI_UNDEFINED;
    MPI_Status status;
    if (!handles.empty()) MPI_Waitany(static_cast<int>(handles.size()), handles.data(), &index, &status);
    if (index != MPI_UNDEFINED) {
      Request& r = *tested_[static_cast<std::size_t>(index)];
      r.mpi = MPI_REQUEST_NULL;
      count(r, status);
    }
    tested_.clear();
  }
  void busy() {}

 private:
  static void count(Request& request, const MPI_Status& status) {
    int n = 0;
    MPI_Get_count(&status, MPI_BYTE, &n);
    request.bytes = static_cast<std::size_t>(std::max(n, 0));
  }
  int rank_ = 0, size_ = 1;
  std::vector<Request*> tested_;
};
static_assert(Comm<WaitingComm>);

// The processor of this rank is in use for so long. Less than a picosecond stands for nothing: scripts/smpi without --rates.
void compute(double seconds) {
  if (seconds > 1e-12) smpi_execute(seconds);
}

// Advances an agreement or an execution until it is done, or has failed.
template <class Stage, class Advance>
void run(WaitingComm& comm, Status& status, Stage& stage, const Advance& advance) {
  while (status.ok() && !stage.done()) {
    bool moved = false;
    status = advance(moved);
    if (!moved) comm.idle();
  }
}

// One call. Returns when the last rank has ended, in seconds after the last one has begun.
double seconds_of(const Method& method, std::size_t count, const sim::Rates& rates, int segments,
                  WaitingComm& comm) {
  const kernels::Codec& codec = *method.codec;
  const PlanRow& row = method.plan != nullptr ? *method.plan : choose_plan(4 * count, comm.size());
  const Plan plan = row.make({comm.rank(), comm.size(), 1, codec.exact_sums});
  const PlanFacts facts = facts_of(plan);
  sim::StepCosts costs;
  costs.rates = &rates;
  sim::SimBackend backend(compute, costs);
  std::vector<float> x(count, 1), y(count), residual(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 17) - 8;
  Reduction r;
  r.plan = &plan;
  r.facts = &facts;
  r.codec = &codec;
  r.ops = codec.ops(kernels::Element::f32, kernels::best_isa());
  r.raw_ops = raw_codec().ops(kernels::Element::f32, kernels::best_isa());
  r.backend = &backend;
  r.params = method.params;
  r.element = kernels::Element::f32;
  r.count = count;
  r.rank = comm.rank();
  r.size = comm.size();
  r.pipelines = r.tag_segments = sim::pipelines_of(plan, comm.size(), segments);
  r.input = reinterpret_cast<const std::byte*>(x.data());
  r.output = reinterpret_cast<std::byte*>(y.data());
  r.residual = reinterpret_cast<std::byte*>(residual.data());
  Signature signature;
  signature.count = count;
  r.call = hash_of(signature);
  Buffer scratch;
  Execution<WaitingComm> execution;
  Agreement<WaitingComm> agreement;
  Tally tally;
  std::uint64_t messages = 0;
  Status status;
  if (!scratch.reserve(Execution<WaitingComm>::scratch_bytes(r))) MPI_Abort(MPI_COMM_WORLD, 1);
  execution.prepare(r, scratch.data());
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  status = agreement.start(comm, signature, {}, CallOrder::kTagsPerWindow - 1);
  run(comm, status, agreement, [&](bool& moved) { return agreement.advance(comm, messages, moved); });
  if (status.ok()) status = execution.start(comm);
  run(comm, status, execution, [&](bool& moved) { return execution.advance(comm, tally, moved); });
  const double mine[2]{start, MPI_Wtime()};
  if (status.ok()) status = execution.failure();
  if (!status.ok() || !(y[3] < 0)) {
    std::fprintf(stderr, "rank %d: %s, y[3] %g\n", comm.rank(), status.text().c_str(),
                 static_cast<double>(y[3]));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  double last[2];
  MPI_Allreduce(mine, last, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return last[1] - last[0];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    WaitingComm comm;
    const auto rates = sim::Rates::read(argc > 1 ? argv[1] : "");
    if (!rates.ok()) {
      std::fprintf(stderr, "%s\n", rates.status().text().c_str());
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int segments = argc > 2 ? std::atoi(argv[2]) : 0;
    for (int i = 3; i + 1 < argc; i += 2) {
      const double seconds =
          seconds_of(*parse_method(argv[i]), std::strtoull(argv[i + 1], nullptr, 10), *rates, segments, comm);
      if (comm.rank() == 0) std::printf("%s %s %.9f\n", argv[i], argv[i + 1], seconds);
    }
  }
  MPI_Finalize();
  return 0;
}
