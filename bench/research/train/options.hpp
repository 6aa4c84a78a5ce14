// The command line of mpiq-train. It is parsed before MPI starts, as in mpiq-bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/parse_lists.hpp"
#include "bench/research/train/network.hpp"
#include "bench/research/train/optimizer.hpp"

namespace mq::bench {

struct TrainOptions {
  std::string data;             // folder of the MNIST files, or a file of LIBSVM
  std::size_t most_images = 0;  // examples of the training set; 0: all
  std::string network = "mlp:512x512";
  NetworkSpec spec;
  Rule rule = Rule::sgd;
  bool adapt_before = false;                     // apply the rule to each rank's gradient before it is sent
  double rate = 0.1, momentum = 0.9, decay = 1;  // decay: of the rate after an epoch
  double second_momentum = 0.999, weight_decay = 0.01;  // of adamw
  int warmup = 0;            // steps in which the rate rises from rate / ranks to rate
  std::vector<double> ramp;  // the shares k of the first epochs
  std::size_t batch = 256;   // examples of all ranks for one step; 0: all
  int epochs = 5;
  int evaluate_every = 0;  // in steps; 0: after each epoch
  double target = 0;       // stop at this test accuracy; 0: never
  std::vector<MethodWord> methods;
  bool feedback = true;
  std::size_t bucket_bytes = std::size_t{4} << 20;  // 0: each tensor alone
  bool half_batches = false;
  int local_steps = 0;  // of each rank between two reductions; 0: every step is one of all ranks together
  double outer_rate = 0.7, outer_momentum = 0.9;  // of the steps with what a reduction of local steps gives
  std::vector<std::uint64_t> seeds{1};
  std::string record;  // a folder
  std::vector<int> record_steps;
  std::string csv;
  std::string link;  // a label of the network, for the table
};

struct TrainCommandLine {
  bool run = false;  // false: print the texts and exit with the code
  int exit_code = 0;
  std::string out, err;
  TrainOptions options;
};
TrainCommandLine parse_train(int argc, const char* const* argv);

}  // namespace mq::bench
