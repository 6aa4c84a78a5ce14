#include "mpi_quant/advisor/link_mpi.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"

namespace mq {
namespace {

constexpr std::array<int, 5> kBytes{1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20};
constexpr int kMostRepetitions = 25;  // an odd number has a median
constexpr double kBudget_s = 0.3;     // for all sizes together
constexpr std::size_t kLeastPoints = 3;
constexpr int kTag = 0;
// Enough for their overheads to be seen beside a latency, and few enough to be under way together in any MPI.
constexpr int kBurst = 16, kBurstBytes = 64;

class Pairs {
 public:
  Pairs(MPI_Comm comm, std::byte* memory) : comm_(comm), out_(memory), in_(memory + kBytes.back()) {
    (void)PMPI_Comm_rank(comm, &rank_);
    (void)PMPI_Comm_size(comm, &size_);
  }
  int matchings() const { return size_ < 4 ? 1 : 2; }

  // The largest value of all ranks.
  Status greatest(double& value) const {
    const double mine = value;
    return mpi_status(real_mpi().allreduce(&mine, &value, 1, MPI_DOUBLE, MPI_MAX, comm_), "MPI_Allreduce");
  }

  // One exchange of this rank with its partner; 0 s if it has no partner.
  Status exchange(int matching, int bytes, double& seconds) const {
    const int partner = partner_of(matching);
    seconds = 0;
    if (partner == MPI_PROC_NULL) return {};
    const double start = PMPI_Wtime();
    MQ_TRY(mpi_status(PMPI_Sendrecv(out_, bytes, MPI_BYTE, partner, kTag, in_, bytes, MPI_BYTE, partner, kTag,
                                    comm_, MPI_STATUS_IGNORE),
                      "MPI_Sendrecv"));
    seconds = PMPI_Wtime() - start;
    return {};
  }

  // As exchange, of kBurst messages each way.
  Status burst(int matching, double& seconds) const {
    const int partner = partner_of(matching);
    seconds = 0;
    if (partner == MPI_PROC_NULL) return {};
    std::array<MPI_Request, std::size_t{2} * kBurst> requests;
    requests.fill(MPI_REQUEST_NULL);
    int code = MPI_SUCCESS;
    const double start = PMPI_Wtime();
    for (std::size_t i = 0; i < kBurst && code == MPI_SUCCESS; ++i)
      code = PMPI_Irecv(in_ + i * kBurstBytes, kBurstBytes, MPI_BYTE, partner, kTag, comm_, &requests[i]);
    for (std::size_t i = 0; i < kBurst && code == MPI_SUCCESS; ++i)
      code = PMPI_Isend(out_, kBurstBytes, MPI_BYTE, partner, kTag, comm_, &requests[kBurst + i]);
    if (code == MPI_SUCCESS)
      code = PMPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    seconds = PMPI_Wtime() - start;
    return mpi_status(code, "MPI_Waitall");
  }

  // The median time of `repetitions` exchanges; in each of them the slowest pair counts. All ranks begin
  // together. 0 bytes: bursts.
  Status median(int matching, int bytes, int repetitions, std::vector<double>& times, double& seconds) const {
    MQ_TRY(mpi_status(PMPI_Barrier(comm_), "MPI_Barrier"));
    times.resize(static_cast<std::size_t>(repetitions));
    for (double& t : times) MQ_TRY(bytes == 0 ? burst(matching, t) : exchange(matching, bytes, t));
    const auto middle = times.begin() + repetitions / 2;
    std::nth_element(times.begin(), middle, times.end());
    seconds = *middle;
    return greatest(seconds);
  }

 private:
  int partner_of(int matching) const {
    const int paired = size_ / 2 * 2, half = size_ / 2;
    if (rank_ >= paired) return MPI_PROC_NULL;
    if (matching == 0) return rank_ ^ 1;
    return rank_ < half ? rank_ + half : rank_ - half;
  }

  MPI_Comm comm_;
  std::byte *out_, *in_;
  int rank_ = 0, size_ = 1;
};

// The time of one size. The time that it takes is subtracted from the budget. All numbers are equal on all
// ranks.
Status measure(const Pairs& pairs, int bytes, double share_s, double& budget_s, std::vector<double>& times,
               double& slowest) {
  slowest = 0;
  for (int matching = 0; matching < pairs.matchings(); ++matching) {
    double warm = 0, seconds = 0;
    MQ_TRY(pairs.median(matching, bytes, 1, times, warm));  // sets up connections and causes page faults
    const double fitting = share_s / pairs.matchings() / std::max(warm, 1e-7) - 1;
    const int repetitions = fitting < 1 ? 0 : static_cast<int>(std::min<double>(fitting, kMostRepetitions));
    seconds = warm;
    if (repetitions > 0) MQ_TRY(pairs.median(matching, bytes, repetitions, times, seconds));
    budget_s -= warm + repetitions * seconds;
    slowest = std::max(slowest, seconds);
  }
  return {};
}

}  // namespace

Result<LinkModel> measure_link(MPI_Comm comm) {
  int size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  if (size < 2) return Status{Code::bad_argument, "one rank has no link"};
  Buffer memory;
  std::vector<double> times;
  std::vector<LinkPoint> points;
  double local_error = memory.reserve(2 * static_cast<std::size_t>(kBytes.back())) ? 0 : 1;
  try {
    times.reserve(kMostRepetitions);
    points.reserve(kBytes.size());
  } catch (const std::bad_alloc&) {
    local_error = 1;
  }
  const Pairs pairs(comm, memory.data());
  MQ_TRY(pairs.greatest(local_error));  // all ranks have the memory, or none goes on
  if (local_error > 0) return Status{Code::no_memory, "no memory to measure the link"};
  double budget_s = kBudget_s;
  for (const int bytes : kBytes) {
    // Eight times the bytes take at most eight times as long.
    const double expected = points.empty() ? 0 : 8 * points.back().seconds * pairs.matchings();
    if (points.size() >= kLeastPoints && expected > budget_s) break;
    const double share_s = budget_s / static_cast<double>(kBytes.size() - points.size());
    double seconds = 0;
    MQ_TRY(measure(pairs, bytes, share_s, budget_s, times, seconds));
    points.push_back({static_cast<double>(bytes), seconds});
  }
  double burst_s = 0, burst_budget_s = kBudget_s;
  MQ_TRY(measure(pairs, 0, kBudget_s / 8, burst_budget_s, times, burst_s));
  return split(fit(points), kBurst, burst_s);
}

}  // namespace mq
