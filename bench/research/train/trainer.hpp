// One training run: a method, a seed.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <vector>

#include "bench/research/train/idx.hpp"
#include "bench/research/train/network.hpp"
#include "bench/research/train/options.hpp"
#include "bench/research/train/reducer.hpp"

namespace mq::bench {

// The state after some steps. Times are seconds since the start without the evaluations; for each kind, the
// slowest rank counts. Bytes are what the busiest rank sent, -1 if MPI does not tell.
struct Evaluation {
  int epoch = 0;
  std::int64_t step = 0;
  // Mean over the examples of the steps since the last evaluation; with --batch 0, of the last step, so of
  // the parameters before it.
  double loss = 0;
  double accuracy = 0;  // of the tests
  double train_s = 0, compute_s = 0, reduce_s = 0, update_s = 0, encode_s = 0, decode_s = 0, wait_s = 0;
  std::int64_t sent_bytes = -1;
};

struct TrainData {
  Images train, test;
};
Result<TrainData> read_data(const TrainOptions& options);

class Trainer {
 public:
  Trainer(const TrainOptions& options, const MethodWord& method, std::uint64_t seed, const TrainData& data,
          MPI_Comm comm);

  // Collective. Calls `report` on rank 0 after each evaluation. All ranks get the same Status, but its text
  // may differ.
  Status run(const std::function<void(const Evaluation&)>& report);
  std::size_t parameters() { return network_.parameters().size(); }
  std::size_t batch() const { return batch_; }  // examples of all ranks in a step
  bool reached() const { return reached_; }     // the target accuracy

 private:
  struct Share {
    std::size_t begin, n;
  };
  Share share_of(std::size_t begin, std::size_t n) const;
  void compute(std::size_t begin, std::size_t n, float* gradients);
  double rate_now(int epoch) const;
  Status step(std::size_t begin);
  Status half_steps(std::size_t begin);
  Status local_step(std::size_t begin);
  Status exchange();
  Status drain();
  void update(std::span<float> gradients);
  Status record(const float* gradients) const;
  Status write(const float* gradients) const;
  Status evaluate(Evaluation& now);

  const TrainOptions& options_;
  const Method& method_;
  MPI_Comm comm_;
  int rank_ = 0, ranks_ = 1;
  Network network_;
  std::size_t batch_;
  Optimizer optimizer_;
  Reducer reducer_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> order_;  // of the examples
  std::vector<float> gradients_[2];   // the second is for half batches
  int flying_ = -1;                   // which gradients are being reduced
  Optimizer outer_;                   // with local steps: of the parameters that all ranks share
  std::vector<float> shared_;         // with local steps: the parameters of the last exchange
  int local_ = 0;                     // steps since then
  double rate_ = 0, loss_ = 0;
  std::int64_t steps_ = 0, examples_ = 0;  // examples since the last evaluation
  Evaluation spent_;                       // this rank's times so far
  bool reached_ = false;
};

}  // namespace mq::bench
