// Training on several ranks does what training on one does, and compressed training learns too.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <filesystem>

#include "bench/research/train/trainer.hpp"

namespace mq::bench {
namespace {

class Train : public ::testing::Test {
 protected:
  Train() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    options_.data = MQ_TEST_DATA "/mnist";
    options_.network = "mlp:64";
    options_.spec = *parse_network(options_.network);
    data_ = *read_data(options_);
    options_.batch = 64;
    options_.epochs = 4;
    options_.bucket_bytes = 0;
  }
  // Of rank 0; elsewhere empty.
  std::vector<Evaluation> run(const std::string& method, MPI_Comm comm = MPI_COMM_WORLD) {
    const MethodWord word = (*parse_methods(method, MethodsFor::matrices))[0];
    std::vector<Evaluation> all;
    Trainer trainer(options_, word, 1, data_, comm);
    const Status status = trainer.run([&](const Evaluation& now) { all.push_back(now); });
    EXPECT_TRUE(status.ok()) << method << ": " << status.text();
    return all;
  }
  void expect_as_on_one_rank(const std::string& method) {
    const std::vector<Evaluation> together = run(method), alone = run(method, MPI_COMM_SELF);
    if (rank_ != 0) return;
    ASSERT_EQ(together.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(together[i].loss, alone[i].loss, 1e-3 * alone[i].loss) << i;
      EXPECT_NEAR(together[i].accuracy, alone[i].accuracy, 0.012) << i;  // three images
    }
  }

  TrainData data_;
  TrainOptions options_;
  int rank_ = 0, size_ = 1;
};

TEST_F(Train, ranks_share_a_batch_and_change_nothing_else) {
  for (const Rule rule : {Rule::sgd, Rule::momentum, Rule::adagrad}) {
    options_.rule = rule;
    options_.rate = rule == Rule::sgd ? 0.1 : 0.02;
    for (const bool halves : {false, true}) {
      options_.half_batches = halves;
      SCOPED_TRACE(std::string(kRules[static_cast<std::size_t>(rule)]) + (halves ? ", half batches" : ""));
      expect_as_on_one_rank("mpi");
    }
  }
  options_.half_batches = false;
  options_.rule = Rule::momentum;
  options_.adapt_before = true;  // sums of velocities are velocities of sums
  expect_as_on_one_rank("mpi");
  options_.adapt_before = false;
  options_.rule = Rule::sgd;
  options_.rate = 0.1;
  options_.spec = *parse_network("cnn:3x4");
  options_.epochs = 1;
  expect_as_on_one_rank("mpi");
}

TEST_F(Train, compressed_gradients_teach_too) {
  options_.epochs = 8;
  const std::vector<Evaluation> exact = run("mpi");
  for (const char* method : {"bf16", "onebit(block=512)", "threshold(quantile=0.9)", "adaptive(pi=8)",
                             "topk(k=0.1,block=1024)", "lowrank(rank=4)", "meprop(k=0.25)"}) {
    const std::vector<Evaluation> got = run(method);
    if (rank_ != 0) continue;
    EXPECT_LT(got.back().loss, 0.6 * got.front().loss) << method;
    EXPECT_GT(got.back().accuracy, exact.back().accuracy - 0.08) << method;
    EXPECT_TRUE(size_ == 1 || got.back().sent_bytes > 0) << method;
  }
}

// Of two ranks, which send what they encode to each other and nothing else.
TEST_F(Train, the_library_knows_the_shapes_of_matrices) {
  options_.epochs = 1;
  const std::vector<Evaluation> lines = run("meprop(k=0.25)"), narrow = run("lowrank(rank=1)"),
                                wide = run("lowrank(rank=4)"), whole = run("raw");
  if (rank_ != 0 || size_ != 2) return;
  const double whole_bytes = static_cast<double>(whole.back().sent_bytes);
  EXPECT_NEAR(static_cast<double>(lines.back().sent_bytes) / whole_bytes, 0.25, 0.01);
  const double one = 784 + 64 + 10 + 64, all = 784 * 64 + 64 * 10;
  EXPECT_NEAR(static_cast<double>(narrow.back().sent_bytes) / whole_bytes, one / all, 0.02);
  EXPECT_NEAR(static_cast<double>(wide.back().sent_bytes) / whole_bytes, 4 * one / all, 0.02);
}

TEST_F(Train, a_ramp_sends_other_shares_in_the_first_epochs) {
  options_.epochs = 3;
  options_.ramp = {0.4, 0.2};
  const std::vector<Evaluation> got = run("topk(k=0.05,block=1024)");
  if (rank_ != 0 || size_ == 1) return;
  const auto sent = [&](std::size_t i) {
    return static_cast<double>(got[i].sent_bytes - (i ? got[i - 1].sent_bytes : 0));
  };
  EXPECT_NEAR(sent(1) / sent(0), 0.5, 0.15);
  EXPECT_NEAR(sent(2) / sent(1), 0.25, 0.1);
}

// What is sent already has the momentum of the rule in it. A second momentum would multiply each step by ten.
TEST_F(Train, memory_momentum_takes_the_place_of_the_optimizer_s) {
  options_.rule = Rule::momentum;
  options_.rate = 0.02;
  const std::vector<Evaluation> exact = run("mpi"), got = run("raw memory=momentum(m=0.9,mask=off)");
  if (rank_ != 0) return;
  EXPECT_NEAR(got.back().loss, exact.back().loss, 1e-3 * exact.back().loss);
}

// An epoch is a step then, and its loss is computed with the parameters before the step.
TEST_F(Train, without_batches_each_step_takes_all_examples) {
  options_.batch = 0;
  options_.epochs = 20;
  const std::vector<Evaluation> together = run("mpi"), alone = run("mpi", MPI_COMM_SELF);
  if (rank_ != 0) return;
  ASSERT_EQ(together.size(), 20u);
  for (std::size_t i = 1; i < together.size(); ++i) {
    EXPECT_EQ(together[i].step, static_cast<std::int64_t>(i + 1));
    EXPECT_LT(together[i].loss, together[i - 1].loss);
    EXPECT_NEAR(together[i].loss, alone[i].loss, 1e-3 * alone[i].loss);
  }
}

TEST_F(Train, estimates_teach_with_large_batches) {
  options_.batch = 256;
  options_.epochs = 30;
  const std::vector<Evaluation> exact = run("mpi");
  for (const char* method :
       {"topk(k=0.1,block=1024) memory=ef21", "topk(k=0.1,block=1024) memory=lazy(zeta=0.1)",
        "topk(k=0.1,block=1024) memory=3pc", "int8 memory=3pc(v=5)"}) {
    const std::vector<Evaluation> got = run(method);
    if (rank_ != 0) continue;
    EXPECT_LT(got.back().loss, 0.6 * got.front().loss) << method;
    EXPECT_GT(got.back().accuracy, exact.back().accuracy - 0.08) << method;
  }
}

// A warm-up that never ends keeps the rate of one rank.
TEST_F(Train, a_warm_up_begins_with_the_rate_of_one_rank) {
  options_.epochs = 2;
  options_.warmup = 1 << 30;
  const std::vector<Evaluation> warm = run("mpi");
  options_.warmup = 0;
  options_.rate /= size_;
  const std::vector<Evaluation> low = run("mpi");
  options_.rate *= size_;
  options_.warmup = 1;  // over before the second step
  const std::vector<Evaluation> high = run("mpi");
  if (rank_ != 0) return;
  EXPECT_NEAR(warm.back().loss, low.back().loss, 1e-4 * low.back().loss);
  if (size_ > 1) {
    EXPECT_LT(high.back().loss, low.back().loss);
  }
}

TEST_F(Train, half_batches_and_adagrad_before_run_compressed) {
  options_.half_batches = true;
  options_.rule = Rule::adagrad;
  options_.adapt_before = true;
  options_.rate = 0.02;
  options_.epochs = 8;
  const std::vector<Evaluation> got = run("onebit(block=512)");
  if (rank_ != 0) return;
  EXPECT_LT(got.back().loss, 0.6 * got.front().loss);
}

// With one local step, the mean of what the ranks changed is the step of all of them; on one rank so are
// many. A round also ends at each test, where Trainer finds ranks that do not have the same bits.
TEST_F(Train, local_steps_with_plain_outer_ones_are_means_of_parameters) {
  options_.batch = 60;  // the same for each of one, two and three ranks
  const std::vector<Evaluation> plain = run("mpi");
  options_.local_steps = 1;
  options_.outer_rate = 1;
  options_.outer_momentum = 0;
  const std::vector<Evaluation> one = run("mpi");
  options_.local_steps = 5;
  const std::vector<Evaluation> alone = run("mpi", MPI_COMM_SELF);
  if (rank_ != 0) return;
  for (const std::vector<Evaluation>& got : {one, alone}) {
    ASSERT_EQ(got.size(), plain.size());
    EXPECT_NEAR(got.back().loss, plain.back().loss, 1e-3 * plain.back().loss);
  }
}

// With AdamW inside, as DiLoCo has it: a rank keeps both averages of its gradients when parameters are
// exchanged.
TEST_F(Train, adamw_inside_of_local_steps_keeps_its_state) {
  options_.rule = Rule::adamw;
  options_.rate = 1e-3;
  const std::vector<Evaluation> plain = run("mpi", MPI_COMM_SELF);
  options_.local_steps = 5;
  options_.outer_rate = 1;
  options_.outer_momentum = 0;
  const std::vector<Evaluation> alone = run("mpi", MPI_COMM_SELF);
  options_.outer_rate = 0.7;
  options_.outer_momentum = 0.9;
  const std::vector<Evaluation> taught = run("int8");
  if (rank_ != 0) return;
  EXPECT_NEAR(alone.back().loss, plain.back().loss, 1e-3 * plain.back().loss);
  EXPECT_LT(taught.back().loss, 0.8 * taught.front().loss);
}

// 8 steps an epoch, so that rounds of 3 end after 3, 6 and 8.
TEST_F(Train, local_steps_exchange_once_a_round_and_teach_compressed) {
  const auto sent = [&](int local_steps, const char* method) {
    options_.local_steps = local_steps;
    return run(method);
  };
  const std::vector<Evaluation> each = sent(1, "int8"), some = sent(3, "int8"),
                                little = sent(3, "onebit(block=512)");
  if (rank_ != 0) return;
  EXPECT_LT(some.back().loss, 0.8 * some.front().loss);
  EXPECT_LT(little.back().loss, 0.9 * little.front().loss);
  if (size_ == 1) return;
  EXPECT_NEAR(static_cast<double>(some.back().sent_bytes) / static_cast<double>(each.back().sent_bytes),
              3.0 / 8, 1e-9);
  EXPECT_LT(little.back().sent_bytes, some.back().sent_bytes / 5);
}

TEST_F(Train, a_target_ends_a_run) {
  options_.target = 0.3;
  options_.evaluate_every = 2;
  options_.epochs = 50;
  const std::vector<Evaluation> got = run("mpi");
  if (rank_ != 0) return;
  EXPECT_GE(got.back().accuracy, 0.3);
  EXPECT_LT(got.size(), 100u);
  for (std::size_t i = 0; i + 1 < got.size(); ++i) EXPECT_LT(got[i].accuracy, 0.3);
}

TEST_F(Train, every_rank_records_every_tensor) {
  options_.epochs = 1;
  options_.record =
      (std::filesystem::temp_directory_path() / "mpiq_train_record").string() + std::to_string(size_);
  options_.record_steps = {0};
  run("mpi");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) {
    std::size_t bytes = 0, files = 0;
    for (const auto& file : std::filesystem::directory_iterator(options_.record)) {
      bytes += file.file_size();
      ++files;
    }
    EXPECT_EQ(files, 4u * static_cast<std::size_t>(size_)) << "two layers, a weight and a bias each";
    EXPECT_EQ(bytes, sizeof(float) * static_cast<std::size_t>(size_) * (784 * 64 + 64 + 64 * 10 + 10));
    std::filesystem::remove_all(options_.record);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Train, what_cannot_be_written_is_an_error_on_every_rank) {
  options_.record = "/proc/nowhere";
  options_.record_steps = {1};
  const MethodWord word = (*parse_methods("mpi"))[0];
  Trainer trainer(options_, word, 1, data_, MPI_COMM_WORLD);
  EXPECT_FALSE(trainer.run([](const Evaluation&) {}).ok());
}

TEST_F(Train, a_rate_that_is_far_too_high_is_noticed) {
  options_.rate = 1e30;
  const MethodWord word = (*parse_methods("mpi"))[0];
  Trainer trainer(options_, word, 1, data_, MPI_COMM_WORLD);
  const Status status = trainer.run([](const Evaluation&) {});
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace mq::bench
