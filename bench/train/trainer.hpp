// One training run: a method, a seed.
#pragma once

#include <mpi.h>

#include <functional>
#include <vector>

#include "bench/train/idx.hpp"
#include "bench/train/options.hpp"
#include "bench/train/reducer.hpp"

namespace mq::bench {

// The state after some steps. Times are seconds since the start without the evaluations; each is that of the
// slowest rank for its kind. Bytes are those that the busiest rank sent, -1 if MPI does not tell.
struct Evaluation {
  int epoch = 0;
  std::int64_t step = 0;
  double loss = 0;      // mean over the images of the steps since the last evaluation
  double accuracy = 0;  // of the test set
  double train_s = 0, compute_s = 0, reduce_s = 0, update_s = 0, encode_s = 0, decode_s = 0, wait_s = 0;
  std::int64_t sent_bytes = -1;
};

class Trainer {
 public:
  Trainer(const TrainOptions& options, const MethodWord& method, std::uint64_t seed, const Images& train,
          const Images& test, MPI_Comm comm);

  // Collective. Calls `report` on rank 0 after each evaluation. All ranks get the same Status, but its text
  // may differ.
  Status run(const std::function<void(const Evaluation&)>& report);
  std::size_t parameters() { return network_.parameters().size(); }
  bool reached() const { return reached_; }  // the target accuracy

 private:
  struct Share {
    std::size_t begin, n;
  };
  Share share_of(std::size_t begin, std::size_t n) const;
  void compute(std::size_t begin, std::size_t n, float* gradients);
  double rate_now(int epoch) const;
  Status step(std::size_t begin);
  Status half_steps(std::size_t begin);
  Status drain();
  void update(std::span<float> gradients);
  Status record(const float* gradients) const;
  Status write(const float* gradients) const;
  Status evaluate(Evaluation& now);

  const TrainOptions& options_;
  const Images &train_, &test_;
  MPI_Comm comm_;
  int rank_ = 0, ranks_ = 1;
  Network network_;
  Optimizer optimizer_;
  Reducer reducer_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> order_;  // of the images
  std::vector<float> batch_;          // this rank's images of a step
  std::vector<std::uint8_t> labels_;
  std::vector<float> gradients_[2];  // the second is for half batches
  int flying_ = -1;                  // which gradients are being reduced
  double rate_ = 0, loss_ = 0;
  std::int64_t steps_ = 0, images_ = 0;  // images since the last evaluation
  Evaluation spent_;                     // this rank's times so far
  bool reached_ = false;
};

}  // namespace mq::bench
