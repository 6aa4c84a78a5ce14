#include "mpi_quant/memory/recognizer.hpp"

#include <algorithm>
#include <cmath>

namespace mq {
namespace {

// tests/preload/identity.py and results/reference/identity.csv say what the constants are for, and what was
// measured.

// A confirmation needs at least kLeastRun correlations one after the other. Their sum must be kSure standard
// deviations of chance. The limit is far beyond chance because all periods are tried at every call.
constexpr std::size_t kLeastRun = 3;
constexpr double kSure = 6;
// A vector belongs to the expected tensor if its likeness is at least two deviations of chance, and at least
// a share of the tensor's usual likeness. The share is a quarter, and more if the likeness is high, because
// a high likeness is steady.
constexpr double kDeviations = 2, kShareOfMean = 0.25, kShareOfSquare = 0.6;
// A vector belongs to another of the tensors in turn if it exceeds these higher limits. The others are not
// tried if the vector has the share kPlain of the usual likeness of the expected tensor.
constexpr double kDeviationsOutOfTurn = 4, kShareOutOfTurn = 0.5, kShareOfSquareOutOfTurn = 0.75,
                 kPlain = 0.75;
// After this many strangers one after the other, nothing is confirmed any more.
constexpr std::size_t kMostStrangers = 3;

}  // namespace

// Measures chance by correlations with seven rotations of the vector before, smoothed over about eight
// vectors. If the elements were independent, the variance would be 1 / size.
void Recognizer::measure_chance(const Sketch& sketch) {
  constexpr std::size_t kRotations = 8, kSmooth = 8;
  double sum = 0, squares = 0;
  for (std::size_t i = 1; i < kRotations; ++i) {
    const double c = correlation(sketch, before_.back(), sketch.size() * i / kRotations);
    sum += c;
    squares += c * c;
  }
  const double mean = sum / (kRotations - 1), variance = squares / (kRotations - 1) - mean * mean;
  const double weight = 1 / static_cast<double>(std::min(++measured_, kSmooth));
  chance_mean_ += weight * (std::max(mean, 0.0) - chance_mean_);
  chance_variance_ += weight * (std::max(variance, 0.0) - chance_variance_);
  chance_ = std::sqrt(chance_variance_ + 1 / static_cast<double>(sketch.size()));
}

// Compares the vector with each one before it. The k-th run ends when a vector is not like the k-th before.
void Recognizer::compare(const Sketch& sketch) {
  for (std::size_t k = 1; k <= before_.size(); ++k) {
    Run& run = runs_[k - 1];
    const Sketch& other = before_[before_.size() - k];
    const double c = correlation(sketch, other) - chance_mean_;
    run = differ_in_kind(sketch, other) || c < std::max(chance_, run.mean() * kShareOfMean)
              ? Run{}
              : Run{run.length + 1, run.sum + c};
  }
}

// Accepts the smallest period that is beyond doubt.
bool Recognizer::confirm() {
  for (std::size_t p = 1; p <= before_.size(); ++p) {
    const Run& run = runs_[p - 1];
    if (run.length < kLeastRun || run.sum < kSure * chance_ * std::sqrt(static_cast<double>(run.length)))
      continue;
    std::vector<Tensor> tensors;
    for (std::size_t i = before_.size() - p; i < before_.size(); ++i)
      tensors.push_back({MeanSketch(before_[i]), before_[i], run.mean()});
    if (p == 1)
      for (std::size_t i = before_.size() - 1; i > 0 && before_.size() - i <= run.length; --i)
        tensors[0].mean.add(before_[i - 1]);
    tensors_ = std::move(tensors);
    next_ = strangers_ = 0;
    before_.clear();
    runs_ = {};
    return true;
  }
  return false;
}

double Recognizer::likeness(const Tensor& tensor, const Sketch& sketch) const {
  return std::max(tensor.mean.correlation(sketch), correlation(sketch, tensor.last)) - chance_mean_;
}

bool Recognizer::is_like(const Tensor& tensor, double likeness, bool in_turn) const {
  const double least = in_turn ? kDeviations : kDeviationsOutOfTurn;
  const double share = in_turn ? std::max(kShareOfMean, kShareOfSquare * tensor.expected)
                               : std::max(kShareOutOfTurn, kShareOfSquareOutOfTurn * tensor.expected);
  return likeness >= std::max(least * chance_, share * tensor.expected);
}

// Finds the tensor that the vector belongs to: the expected one, or another one that is more like it.
Recognizer::Finding Recognizer::follow(const Sketch& sketch) {
  std::size_t phase = next_;
  double like = likeness(tensors_[phase], sketch);
  bool known = is_like(tensors_[phase], like, true);
  if (period() > 1 && like < kPlain * tensors_[next_].expected)
    for (std::size_t i = 0; i < period(); ++i) {
      const double other = likeness(tensors_[i], sketch);
      if (other <= like) continue;
      phase = i;
      like = other;
      known = is_like(tensors_[i], like, false);
    }
  // A tensor that has another scale from now on, as after a drop of the learning rate, shows it twice in a
  // row.
  if (known && differ_in_kind(sketch, tensors_[phase].last))
    known = changed_ && !differ_in_kind(sketch, *changed_);
  next_ = (known ? phase + 1 : next_ + 1) % period();
  changed_ = known ? std::optional<Sketch>() : sketch;
  if (!known) return {++strangers_ < kMostStrangers ? Match::stranger : Match::lost, 0};
  strangers_ = 0;
  constexpr double kFollow = 0.25;
  Tensor& tensor = tensors_[phase];
  tensor.expected += kFollow * (like - tensor.expected);
  tensor.mean.add(sketch);
  tensor.last = sketch;
  return {Match::known, phase};
}

Recognizer::Finding Recognizer::judge(const Sketch& sketch) {
  if (period() > 0) {
    const Finding finding = follow(sketch);
    if (finding.match != Match::lost) return finding;
    tensors_.clear();
    before_.push_back(sketch);
    return finding;
  }
  if (!before_.empty()) {
    measure_chance(sketch);
    compare(sketch);
  }
  before_.push_back(sketch);
  if (before_.size() > kMostPeriod) before_.pop_front();
  // The newest vector is the last of the tensors in turn. The next call begins with the first.
  if (confirm()) return {Match::confirmed, period() - 1};
  return {runs_[0].length > 0 ? Match::continues : Match::alone, 0};
}

}  // namespace mq
