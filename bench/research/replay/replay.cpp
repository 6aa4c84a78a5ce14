#include "bench/research/replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/call.hpp"
#include "bench/check.hpp"
#include "bench/research/train/reducer.hpp"
#include "bench/sync.hpp"

namespace mq::bench {
namespace {

double norm(std::span<const double> x) {
  double sum = 0;
  for (const double a : x) sum += a * a;
  return std::sqrt(sum);
}

template <class T>
double distance(std::span<const T> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - y[i];
    sum += d * d;
  }
  return std::sqrt(sum);
}

double greatest(double mine, MPI_Comm comm) {
  PMPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, comm);
  return mine;
}

}  // namespace

// A method on its way through the steps.
struct Replay::Lane {
  std::unique_ptr<Reducer> reducer;
  std::vector<float> vector;
  std::vector<double> sum;  // of the results
  bool plain = false;       // MPI's own reduction
  Replayed out;
};

Replay::Replay(const Recording& recording, std::size_t row, MPI_Comm comm)
    : recording_(recording), row_(row), count_(recording.count(0)), comm_(comm), total_(count_) {
  int ranks = 1;
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &ranks);
  double energy = 0;
  for (std::size_t step = 0; step < recording.steps(); ++step) {
    std::vector<double> sum(count_);
    const std::uint64_t first = recording.first("", step);
    for (int rank = 0; rank < ranks; ++rank)
      for (std::size_t i = 0; i < count_; ++i) sum[i] += recording.value(rank, first + i);
    for (std::size_t i = 0; i < count_; ++i) total_[i] += sum[i];
    energy += norm(sum) * norm(sum);
    if (step == 0) first_ = std::move(sum);
  }
  step_norm_ = std::sqrt(energy / static_cast<double>(recording.steps()));
}

void Replay::call(Lane& lane, std::span<const float> x, std::size_t step) const {
  std::copy(x.begin(), x.end(), lane.vector.begin());
  dissemination_barrier(comm_);
  const double start = now_s();
  const int error = lane.reducer->reduce(lane.vector.data());
  const double seconds = greatest(now_s() - start, comm_);
  // A method that is refused is refused on all ranks, because all bring the same arguments.
  if (error != MPI_SUCCESS) {
    lane.out.problem = error_text(error);
    return;
  }
  lane.out.seconds.push_back(seconds);
  if (step == 0) lane.out.first = distance(std::span<const float>(lane.vector), first_) / norm(first_);
  for (std::size_t i = 0; i < count_; ++i) lane.sum[i] += static_cast<double>(lane.vector[i]);
}

Replayed Replay::finish(Lane& lane) const {
  if (!lane.out.problem.empty()) return {.problem = std::move(lane.out.problem)};
  const MPIQ_Stats stats = lane.reducer->stats();
  if (stats.declined_calls > 0)
    return {.problem = fmt::format("MPI made {} of the calls", stats.declined_calls)};
  const double off = distance(std::span<const double>(lane.sum), total_);
  lane.out.error = off / norm(total_);
  lane.out.debt = off / step_norm_;
  const auto sent = greatest(static_cast<double>(stats.wire_bytes_sent), comm_);
  if (!lane.plain) lane.out.bytes = sent / static_cast<double>(recording_.steps());
  return std::move(lane.out);
}

std::vector<Replayed> Replay::run(std::span<const MethodWord> methods, bool feedback) const {
  std::vector<Lane> lanes(methods.size());
  for (std::size_t m = 0; m < methods.size(); ++m) {
    lanes[m].plain = methods[m].text == "mpi";
    lanes[m].reducer =
        std::make_unique<Reducer>(methods[m].text, feedback, std::vector<Span>{{"", 0, count_, row_}}, comm_);
    lanes[m].vector.resize(count_);
    lanes[m].sum.resize(count_);
  }
  std::vector<float> x(count_);
  for (std::size_t step = 0; step < recording_.steps(); ++step) {
    for (std::size_t i = 0; i < count_; ++i)
      x[i] = static_cast<float>(recording_.value(rank_, recording_.first("", step) + i));
    for (std::size_t m = 0; m < lanes.size(); ++m)
      if (Lane& lane = lanes[(m + step) % lanes.size()]; lane.out.problem.empty()) call(lane, x, step);
  }
  std::vector<Replayed> out;
  for (Lane& lane : lanes) out.push_back(finish(lane));
  return out;
}

}  // namespace mq::bench
