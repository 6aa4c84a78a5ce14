// Finds out whether the vectors under one name (an address, a position in a step) are one tensor, several
// tensors in turn, or unrelated. It looks at sketches only and knows no residuals and no names.
//
//   One tensor   each vector is like the one before it.
//   Several      each vector is like the p-th before it, but not like the one before: a cycle of period p.
//   Strangers    neither. Noise looks the same: its magnitudes do not persist from step to step.
//
// Only the part of a correlation that exceeds chance counts. Vectors with a structure of their own (smooth
// ones, or ones in rows) correlate more by chance than independent numbers do. So chance is measured, by
// correlations of the same vectors at wrong positions. Correlations are added up over calls, because
// gradients behind tanh or a batch normalisation correlate by 0.1 only, which is five times chance.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "mpi_quant/memory/sketch.hpp"

namespace mq {

class Recognizer {
 public:
  static constexpr std::size_t kMostPeriod = 16;

  enum class Match {
    alone,      // not confirmed, and unlike the vector before
    continues,  // not confirmed yet, and like the vector before
    confirmed,  // confirmed now: there is one tensor, or as many in turn as period() says
    known,      // confirmed before, and the vector belongs to the tensor of Finding::phase
    stranger,   // confirmed before, and the vector belongs to none of the tensors
    lost,       // a stranger after too many others: nothing is confirmed any more
  };
  struct Finding {
    Match match;
    std::size_t phase = 0;  // which of the confirmed tensors; below period()
  };
  // Judges the next vector. Its sketch must be finite and not blank. May throw std::bad_alloc.
  Finding judge(const Sketch& sketch);
  // The number of tensors that come in turn. 0: nothing is confirmed.
  std::size_t period() const { return tensors_.size(); }
  // The phase that is expected next.
  std::size_t next_phase() const { return next_; }

 private:
  // The correlations with the k-th vector before, over consecutive vectors that were alike.
  struct Run {
    std::size_t length = 0;
    double sum = 0;
    double mean() const { return length > 0 ? sum / static_cast<double>(length) : 0; }
  };
  struct Tensor {
    MeanSketch mean;
    Sketch last;
    double expected;  // usual correlation of the next vector with `mean` or `last`
  };
  void measure_chance(const Sketch& sketch);
  void compare(const Sketch& sketch);
  bool confirm();
  double likeness(const Tensor& tensor, const Sketch& sketch) const;
  bool is_like(const Tensor& tensor, double likeness, bool in_turn) const;
  Finding follow(const Sketch& sketch);

  std::deque<Sketch> before_;  // the last vectors, newest at the end; empty while something is confirmed
  std::array<Run, kMostPeriod> runs_{};
  std::vector<Tensor> tensors_;
  std::optional<Sketch> changed_;         // the vector before, if it was a stranger
  std::size_t next_ = 0, strangers_ = 0;  // expected phase; number of strangers one after the other
  // Mean and variance of a correlation by chance; chance_ is its standard deviation.
  double chance_mean_ = 0, chance_variance_ = 0, chance_ = 1;
  std::size_t measured_ = 0;  // how often chance was measured
};

}  // namespace mq
