// Whether the vectors that come under one name (an address, a position in a step) are one tensor, several in
// turn, or strangers. A judgement of sketches alone: no residuals here, no names.
//
//   One tensor   each vector is like the one before it.
//   Several      each is like the p-th before it, and not like the one before: a cycle of period p.
//   Strangers    neither. Noise looks so too: nothing in its magnitudes stays from step to step.
//
// A correlation counts as far as it exceeds chance. Vectors with a structure of their own (smooth ones, ones
// in rows) correlate by chance more than independent numbers do, so chance is measured: by correlations of
// the same vectors at wrong positions. Correlations add up over calls, as gradients behind tanh or a batch
// normalisation correlate by 0.1 only, five times chance.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "mpi_quant/memory/sketch.hpp"

namespace mq {

class Recognizer {
 public:
  static constexpr std::size_t kMostPeriod = 16;

  enum class Verdict {
    alone,      // not confirmed, and unlike the vector before
    continues,  // not confirmed yet, and like the vector before
    confirmed,  // from this one on: what comes is one tensor, or as many in turn as period() says
    known,      // confirmed before, and this is the tensor of finding's phase
    stranger,   // confirmed before, and this is none of them
    lost,       // likewise, for so many times that nothing is confirmed any more
  };
  struct Finding {
    Verdict verdict;
    std::size_t phase = 0;  // which of the tensors in turn, once confirmed; below period()
  };
  // Of the next vector, whose sketch is finite and not blank. May throw std::bad_alloc.
  Finding judge(const Sketch& sketch);
  // How many tensors come in turn; 0: nothing is confirmed.
  std::size_t period() const { return tensors_.size(); }
  // The phase that is expected next.
  std::size_t next_phase() const { return next_; }

 private:
  // The correlations with the k-th vector before, of consecutive vectors that are alike.
  struct Run {
    std::size_t length = 0;
    double sum = 0;
    double mean() const { return length > 0 ? sum / static_cast<double>(length) : 0; }
  };
  struct Tensor {
    MeanSketch mean;
    Sketch last;
    double expected;  // correlation of its next vector with these
  };
  void measure_chance(const Sketch& sketch);
  void compare(const Sketch& sketch);
  bool confirm();
  double likeness(const Tensor& tensor, const Sketch& sketch) const;
  bool is_like(const Tensor& tensor, double likeness, bool in_turn) const;
  Finding follow(const Sketch& sketch);

  std::deque<Sketch> before_;  // the last ones, the newest at the end, as long as nothing is confirmed
  std::array<Run, kMostPeriod> runs_{};
  std::vector<Tensor> tensors_;
  std::size_t next_ = 0, strangers_ = 0;                       // strangers_: one after the other
  double chance_mean_ = 0, chance_variance_ = 0, chance_ = 1;  // of a correlation; chance_: its deviation
  std::size_t measured_ = 0;                                   // how often
};

}  // namespace mq
