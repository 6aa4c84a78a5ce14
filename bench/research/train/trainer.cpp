#include "bench/research/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <utility>

#include "bench/buffers.hpp"
#include "bench/call.hpp"
#include "bench/check.hpp"
#include "bench/random.hpp"
#include "bench/research/train/network.hpp"
#include "bench/sync.hpp"

namespace mq::bench {
namespace {

Status reduced(int error) {
  if (error == MPI_SUCCESS) return {};
  return {Code::mpi_failed, error_text(error)};
}

// Adds the time since `start` to a phase and returns the current time.
double book(double& phase, double start) {
  const double now = now_s();
  phase += now - start;
  return now;
}

// The results of memory=momentum have the momentum in them already, so the parameters are updated without
// another. A single rank compresses nothing, and has no memory.
Rule rule_of(const TrainOptions& options, const Method& method, MPI_Comm comm) {
  int ranks = 1;
  PMPI_Comm_size(comm, &ranks);
  const bool has_momentum = ranks > 1 && method.memory != nullptr && method.memory->name == "momentum";
  return has_momentum && options.rule == Rule::momentum ? Rule::sgd : options.rule;
}

// The method in an epoch, counted from 1: with --ramp the first ones send another share k.
std::string method_in(const TrainOptions& options, Method method, int epoch) {
  const auto e = static_cast<std::size_t>(epoch - 1);
  if (e < options.ramp.size())
    for (std::size_t i = 0; i < method.codec->specs.size(); ++i)
      if (method.codec->specs[i].name == "k") method.params.value[i] = options.ramp[e];
  return to_string(method);
}

}  // namespace

Result<TrainData> read_data(const TrainOptions& options) {
  TrainData data;
  auto images = read_images(options.data, "train", options.most_images),
       tests = read_images(options.data, "t10k");
  if (!images.ok() || !tests.ok()) return images.ok() ? tests.status() : images.status();
  data.train = std::move(*images);
  data.test = std::move(*tests);
  const Images &train = data.train, &test = data.test;
  if (train.rows != train.columns || test.rows != train.rows || test.columns != train.columns)
    return Status{Code::bad_argument, "images are not square, or of two sizes"};
  return data;
}

Trainer::Trainer(const TrainOptions& options, const MethodWord& method, std::uint64_t seed,
                 const TrainData& data, MPI_Comm comm)
    : options_(options),
      method_(method.method),
      comm_(comm),
      network_(options.spec, data.train, data.test, seed),
      batch_(options.batch == 0 ? network_.examples() : options.batch),
      optimizer_(rule_of(options, method.method, comm), options.momentum, parameters(),
                 options.second_momentum, options.weight_decay),
      reducer_(method.text, options.feedback, make_buckets(network_.tensors(), options.bucket_bytes), comm),
      seed_(seed),
      order_(network_.examples()),
      outer_(options.local_steps > 0 ? Rule::nesterov : Rule::sgd, options.outer_momentum, parameters()) {
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &ranks_);
  std::iota(order_.begin(), order_.end(), 0U);
  for (std::vector<float>& gradients : gradients_) gradients.resize(parameters());
  if (options.local_steps > 0) shared_.assign(network_.parameters().begin(), network_.parameters().end());
}

// This rank's part of n examples.
Trainer::Share Trainer::share_of(std::size_t begin, std::size_t n) const {
  const auto r = static_cast<std::size_t>(rank_), p = static_cast<std::size_t>(ranks_);
  const std::size_t first = n * r / p;
  return {begin + first, n * (r + 1) / p - first};
}

// The gradient of this rank's share of n examples, divided by n. The sum over all ranks is then the gradient
// of the mean loss of the n examples.
void Trainer::compute(std::size_t begin, std::size_t n, float* gradients) {
  const Share mine = share_of(begin, n);
  loss_ += network_.gradient({&order_[mine.begin], mine.n}, 1 / static_cast<float>(n), gradients);
  examples_ += static_cast<std::int64_t>(n);
  if (options_.adapt_before) optimizer_.adapt({gradients, parameters()});
}

void Trainer::update(std::span<float> gradients) {
  if (!options_.adapt_before)
    return optimizer_.update(gradients, static_cast<float>(rate_), network_.parameters());
  // The velocities of the ranks add up to the velocity of the sum. Gradients that AdaGrad divided are of
  // order 1 on every rank, so their sum is divided by the ranks.
  const double parts = options_.rule == Rule::adagrad ? ranks_ : 1;
  Optimizer(Rule::sgd, 0, 0).update(gradients, static_cast<float>(rate_ / parts), network_.parameters());
}

// Collective, because a rank that cannot write must not leave the others in a reduction.
Status Trainer::record(const float* gradients) const {
  const auto& steps = options_.record_steps;
  if (std::find(steps.begin(), steps.end(), steps_) == steps.end()) return {};
  Status mine = write(gradients);
  if (all_agree(mine.ok(), comm_) || !mine.ok()) return mine;
  return {Code::peer_failed, "another rank could not write its gradients"};
}

Status Trainer::write(const float* gradients) const {
  std::error_code error;
  std::filesystem::create_directories(options_.record, error);
  for (const Span& tensor : network_.tensors()) {
    const std::string path =
        fmt::format("{}/step{:06}-rank{}-{}.f32", options_.record, steps_, rank_, tensor.name);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(gradients + tensor.begin),
               static_cast<std::streamsize>(tensor.count * sizeof(float)));
    if (!file.flush()) return {Code::bad_argument, fmt::format("--record: {} cannot be written", path)};
  }
  return {};
}

// The rate of the next step. Where P ranks take P times the images of one, a rate P times as large is right
// later and too large at first (Goyal et al. 2017: Accurate, Large Minibatch SGD, section 2.2).
double Trainer::rate_now(int epoch) const {
  const double rate = options_.rate * std::pow(options_.decay, epoch - 1);
  if (steps_ >= options_.warmup) return rate;
  const double lowest = rate / ranks_;
  return lowest + (rate - lowest) * static_cast<double>(steps_) / options_.warmup;
}

Status Trainer::step(std::size_t begin) {
  float* const gradients = gradients_[0].data();
  double t = now_s();
  if (options_.batch == 0) loss_ = 0, examples_ = 0;
  compute(begin, batch_, gradients);
  t = book(spent_.compute_s, t);
  if (Status s = record(gradients); !s.ok()) return s;
  t = now_s();
  if (Status s = reduced(reducer_.reduce(gradients)); !s.ok()) return s;
  t = book(spent_.reduce_s, t);
  update(gradients_[0]);
  book(spent_.update_s, t);
  return {};
}

// Completes the running reduction and applies its gradient; or exchanges what local steps have changed.
// Afterwards all ranks have the same parameters.
Status Trainer::drain() {
  if (local_ > 0) return exchange();
  if (flying_ < 0) return {};
  double t = now_s();
  if (Status s = reduced(reducer_.finish()); !s.ok()) return s;
  t = book(spent_.reduce_s, t);
  update(gradients_[std::exchange(flying_, -1)]);
  book(spent_.update_s, t);
  return {};
}

// Seide et al. 2014, section 3.3: the gradient of a half is computed with parameters that do not contain the
// half before.
Status Trainer::half_steps(std::size_t begin) {
  for (int half = 0; half < 2; ++half) {
    const std::size_t n = batch_ / 2;
    const double t = now_s();
    compute(begin + static_cast<std::size_t>(half) * n, n, gradients_[half].data());
    book(spent_.compute_s, t);
    if (half == 0)
      if (Status s = record(gradients_[half].data()); !s.ok()) return s;
    if (Status s = drain(); !s.ok()) return s;
    if (Status s = reduced(reducer_.start(gradients_[half].data())); !s.ok()) return s;
    flying_ = half;
  }
  return {};
}

// A step of this rank alone, with the gradient of the mean loss of its share of the batch. It keeps the state
// of its optimizer when parameters are exchanged, as in DiLoCo.
Status Trainer::local_step(std::size_t begin) {
  const Share mine = share_of(begin, batch_);
  double t = now_s();
  const float scale = mine.n > 0 ? 1 / static_cast<float>(mine.n) : 0;
  // The loss is divided by the examples of all ranks later, so it counts for each example once.
  loss_ += network_.gradient({&order_[mine.begin], mine.n}, scale, gradients_[0].data());
  examples_ += static_cast<std::int64_t>(batch_);
  t = book(spent_.compute_s, t);
  optimizer_.update(gradients_[0], static_cast<float>(rate_), network_.parameters());
  book(spent_.update_s, t);
  return ++local_ == options_.local_steps ? exchange() : Status{};
}

// Douillard et al. 2023: DiLoCo, algorithm 1. What the local steps changed, averaged over the ranks, is a
// gradient for the parameters that all ranks had before these steps. The mean is the sum of parts of 1/P.
Status Trainer::exchange() {
  double t = now_s();
  const std::span<float> parameters = network_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    gradients_[0][i] = (shared_[i] - parameters[i]) / static_cast<float>(ranks_);
  t = book(spent_.update_s, t);
  if (Status s = reduced(reducer_.reduce(gradients_[0].data())); !s.ok()) return s;
  t = book(spent_.reduce_s, t);
  outer_.update(gradients_[0], static_cast<float>(options_.outer_rate), shared_);
  std::copy(shared_.begin(), shared_.end(), parameters.begin());
  local_ = 0;
  book(spent_.update_s, t);
  return {};
}

// Combines the numbers of all ranks. It fails on every rank if their parameters differ, or if the loss is not
// a number.
Status Trainer::evaluate(Evaluation& now) {
  now = spent_;
  now.step = steps_;
  const MPIQ_Stats stats = reducer_.stats();
  const Share mine = share_of(0, network_.tests());
  const std::size_t right = network_.recognised(mine.begin, mine.n);
  std::array<double, 2> sums{loss_, static_cast<double>(right)};
  std::array<double, 8> most{
      now.train_s,    now.compute_s,  now.reduce_s, now.update_s,
      stats.encode_s, stats.decode_s, stats.wait_s, static_cast<double>(stats.wire_bytes_sent)};
  const std::span<float> parameters = network_.parameters();
  const std::uint64_t hash = hash_bytes(parameters.data(), parameters.size_bytes());
  std::array<std::uint64_t, 2> hashes{hash, ~hash};
  PMPI_Allreduce(MPI_IN_PLACE, sums.data(), 2, MPI_DOUBLE, MPI_SUM, comm_);
  PMPI_Allreduce(MPI_IN_PLACE, most.data(), 8, MPI_DOUBLE, MPI_MAX, comm_);
  PMPI_Allreduce(MPI_IN_PLACE, hashes.data(), 2, MPI_UINT64_T, MPI_MAX, comm_);
  now.loss = sums[0] / static_cast<double>(examples_);
  now.accuracy = sums[1] / static_cast<double>(network_.tests());
  now.train_s = most[0], now.compute_s = most[1], now.reduce_s = most[2], now.update_s = most[3];
  now.encode_s = most[4], now.decode_s = most[5], now.wait_s = most[6];
  now.sent_bytes = stats.calls > 0 ? static_cast<std::int64_t>(most[7]) : -1;
  loss_ = 0;
  examples_ = 0;
  if (hashes[0] != ~hashes[1]) return {Code::mismatch, "the ranks have different parameters"};
  if (!std::isfinite(now.loss)) return {Code::bad_argument, "the loss is not finite: a smaller --rate?"};
  return {};
}

Status Trainer::run(const std::function<void(const Evaluation&)>& report) {
  const std::size_t steps = order_.size() / batch_;
  if (steps == 0) return {Code::bad_argument, "--batch: more than there are examples"};
  Random random(seed_ ^ 0x5eed);
  for (int epoch = 1; epoch <= options_.epochs && !reached_; ++epoch) {
    if (options_.batch > 0) random.shuffle(order_);  // without batches each rank keeps its examples
    if (!options_.ramp.empty() && method_.codec != nullptr) reducer_.use(method_in(options_, method_, epoch));
    for (std::size_t s = 0; s < steps && !reached_; ++s) {
      const double t = now_s();
      rate_ = rate_now(epoch);
      Status status = options_.local_steps > 0 ? local_step(s * batch_)
                      : options_.half_batches  ? half_steps(s * batch_)
                                               : step(s * batch_);
      ++steps_;
      const bool last = s + 1 == steps;
      const bool due = options_.evaluate_every > 0 ? steps_ % options_.evaluate_every == 0 : last;
      if (status.ok() && (due || last)) status = drain();
      book(spent_.train_s, t);
      if (!status.ok()) return status;
      if (!due && !(last && epoch == options_.epochs)) continue;
      Evaluation now;
      status = evaluate(now);
      now.epoch = epoch;
      reached_ = options_.target > 0 && now.accuracy >= options_.target;
      if (rank_ == 0) report(now);
      if (!status.ok()) return status;
    }
  }
  return {};
}

}  // namespace mq::bench
