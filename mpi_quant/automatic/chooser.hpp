// Chooses for the calls of one class, as `auto` asks: the fastest of MPI's own reduction and the candidates
// whose error is within the limit. It is a pure function of what the ranks agreed on, so that all ranks
// choose alike. It reads no clock and sends nothing: times and errors come with the agreement that a call
// makes anyway, and tests drive it with simulated networks.
//
//   learn     the first two calls are exact, and the third in an unmodified program. Their time, the time
//             of an agreement, and how fast this machine encodes and decodes fit the model. It says in which
//             order candidates are worth a try.
//   explore   a candidate that the model or its measured time puts ahead runs three times. The third or
//             fourth result is compared with the exact sum. The other plans of the favourite's codec run
//             twice, also if the model is against them: it may be wrong about what a message or a pass
//             costs here.
//   exploit   the fastest runs. Now and then MPI's own reduction runs instead, to see whether it would be
//             faster by now; where MPI is the fastest, an agreement now and then brings the times together.
//   change    several times in a row far from what was usual: all is measured again.
//
// The budget: what a candidate takes beyond MPI's own reduction, what an agreement and samples take in a
// call that MPI reduces, and what judging a result took, is paid from an account. If each call makes an
// agreement anyway, it is part of MPI's time. The account gets one hundredth of MPI's time with each
// call and what compressed calls save, and holds at most the time of one and a half of MPI's reductions.
// Beside samples one call is charged at most one of MPI's times, because what takes longer is mostly a
// disturbance that has nothing to do with the method; the first run of a candidate half of one, unless
// the second shows that it was the method. So the calls of a class take at most 2 % longer than MPI's
// own, over any 200 of them, as far as times can be predicted.
//
// A time is the time of the rank that was fastest in the call: a rank that comes early also waits. Of
// collectives with a root see heard.hpp: MPI's own calls are timed only where they make an agreement.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi_quant/automatic/candidates.hpp"
#include "mpi_quant/automatic/heard.hpp"
#include "mpi_quant/automatic/knowledge.hpp"
#include "mpi_quant/base/hash.hpp"

namespace mq {

// What one call of the class does. Equal on all ranks.
struct Choice {
  std::size_t candidate = 0;  // that reduces; 0: MPI
  bool sampled = false;       // each rank tries it on a sample of its vector before the agreement
  std::size_t scouted = 0;    // another one that each rank tries on the sample; 0: none
  bool measures = false;      // each rank measures how fast its codecs are (Sample::rates)
  bool agrees = false;        // the call makes an agreement. A candidate but the first needs one
  bool judged = false;        // the result is compared with the exact sum
  double margin = 1;          // by which a sample has to be better than the limit
};

class Chooser {
 public:
  // agrees_anyway: each call makes an agreement, also if MPI reduces and Choice::agrees is false.
  explicit Chooser(const CallClass& calls, bool agrees_anyway = false);

  // Counts the next call of the class, and returns what it does.
  Choice next();
  // What the agreement of this call brought. runs: this rank, and so all, would now reduce by the choice;
  // false if something else left the call to MPI. Returns false if the sample's error is over the limit: MPI
  // reduces.
  bool heard(const Heard& heard, bool runs = true);
  // The ranks did not reduce by the choice, because some chose otherwise or lacked memory.
  void split();
  // The relative error of a judged result, the greatest of all ranks. The caller delivers the exact sum if
  // this returns false.
  bool judged(double error);
  // For calls that may be in flight beside others, from which nothing is learnt: the fastest known candidate,
  // and whether it may run if its sample has this error.
  Choice favourite_choice() const;
  bool allows(std::size_t candidate, double error, double margin) const;
  // A hash of what decides the next choices. Equal on ranks that have the same candidates and have heard the
  // same.
  std::uint16_t state() const;
  // Forgets everything but the line of a file.
  void restart() noexcept;
  // From now on takes the method of this line of a file and measures no times; without a line, or if the
  // limit cannot be kept with the method, MPI. The error of the method is still sampled and judged. May throw
  // std::bad_alloc.
  void freeze(const KnownClass* known);
  // The line for a file, from which the next run may choose. While all is measured again, the line of before.
  // In the first calls learnt_from is 0: then it is no line.
  KnownClass known() const;

  const CallClass& calls() const { return calls_; }
  const std::vector<AutoCandidate>& candidates() const { return candidates_; }
  const AutoCandidate& candidate(std::size_t i) const { return candidates_[i]; }

  // For reports. Seconds are for vectors of calls().bytes; 0: not measured.
  std::size_t favourite() const;  // fastest within the limit, as far as is known
  double seconds(std::size_t candidate) const;
  struct Totals {
    std::uint64_t calls = 0, compressed = 0, inexact = 0;  // inexact: made exact because of the sample
    double saved_s = 0, explored_s = 0;  // against MPI's own reduction; explored: what was paid for learning
    double worst_error = 0;              // of judged results
    std::uint64_t judgements = 0, changes = 0;
  };
  const Totals& totals() const { return totals_; }
  // Of its methods; plans of one method count once. over_limit: by the last sample or result.
  struct Counts {
    std::size_t methods = 0, tried = 0, over_limit = 0;
  };
  Counts counts() const;
  double margin() const { return margin_; }

 private:
  static constexpr double kMargin = 1.25;
  static constexpr std::size_t kKept = 5;
  struct Known {
    std::array<double, kKept> times{};
    std::size_t runs = 0;  // since its times are of use
    double predicted = 0;
    double time = 0;          // expected, from both
    double excused_s = 0;     // what the first run took beyond what it was charged
    double correction = 1;    // measured over predicted, when it was measured
    double error = -1;        // of the last sample; < 0: none was taken
    std::uint64_t retry = 0;  // call from which on it is scouted again, while its error is over the limit
    std::uint64_t sampled_at = 0;  // call
    unsigned misses = 0;
    std::uint64_t judgements = 0, next_judged = 0;
    // Results before the first judgement. forget_times() keeps it.
    std::size_t unjudged = 0;
    bool has_run = false;                // forget_times() keeps it, too
    double usual = 0;                    // time, once it has run kKept times
    double scatter = 0;                  // mean distance from it, as a share
    unsigned unusual = 0, drifting = 0;  // calls in a row that were far from it, or a little
    void estimate();                     // after each change of times or predicted
    void add_run(double seconds);
    void forget_runs();
  };
  struct KnownTimes {
    double seconds = 0, dense_s = 0, margin = kMargin;
  };
  // The last favourite that was no passing one.
  struct Settled {
    std::size_t candidate = 0;
    double seconds = 0, dense_s = 0;
  };
  void take_file();
  void settle();
  bool is_within_limit(std::size_t i) const;
  bool is_over_other_plan(std::size_t i, std::size_t of) const;
  bool is_probed(std::size_t i, std::size_t best) const;
  bool asks_for_sample(std::size_t i) const;
  bool can_be_judged(std::size_t i) const;
  bool is_last_try(std::size_t i) const;
  bool must_be_judged(std::size_t i) const;
  bool is_trusted(std::size_t i) const;
  std::size_t worth_a_try(std::size_t best) const;
  std::size_t worth_a_scout(std::size_t best) const;
  void take_sample(std::size_t i, const Sampled& sampled, bool sees_all);
  double cost_of_try(std::size_t i) const;
  // The time that the sample of an untried candidate adds to its call.
  double sample_s(std::size_t i) const { return candidates_[i].is_sure ? 0 : trying_s_; }
  Choice choose();
  Choice run(std::size_t i) const;
  Choice leave_to_mpi(bool is_favourite);
  void hear_times(const Heard& heard);
  void mpi_reduces();
  void pay_trying(double seconds);
  TimedRank timed() const { return calls_.timed(); }
  void miss(Known& known);
  void distrust(std::size_t of, double error);
  void count_split();
  bool knows_network() const { return dense_s() > 0 && agreement_s_ > 0; }
  double dense_s() const { return known_[0].runs == 0 ? 0 : known_[0].time; }
  // What a call takes if MPI reduces.
  double mpi_s() const { return dense_s() + (agrees_anyway_ ? agreement_s_ : 0); }
  double call_s(std::size_t i) const { return i == 0 ? mpi_s() : known_[i].time; }
  double judging_s() const;
  std::uint64_t calls_between_dense(std::size_t best) const;
  std::uint64_t calls_between_agreements() const;
  void fit();
  void predict(std::size_t i);
  void add_time(std::size_t i, double seconds);
  void add_judging(std::size_t i, double seconds);
  void watch(std::size_t i, double seconds);
  void add_dense(double seconds);
  void forget_times();
  void pay(double seconds);
  void pay_agreement();

  CallClass calls_;
  bool agrees_anyway_;
  std::vector<AutoCandidate> candidates_;
  std::vector<Known> known_;
  Totals totals_;
  Prices network_{};
  Slowness slowness_;
  bool is_rated_ = false;      // slowness_ was measured
  Choice now_;                 // of the call under way
  std::size_t timed_ = kNone;  // candidate of the call whose time comes with the next agreement
  bool has_tried_ = false;     // MPI reduced that call, but methods were tried on samples before
  bool has_prepared_ = false;  // and one of them was to reduce it
  double trying_s_ = 0;        // what that took, the last time
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t frozen_ = kNone;
  KnownTimes file_;           // what the line of the file says, if frozen_ is a candidate
  std::uint64_t listed_ = 0;  // a hash of the candidates
  double agreement_s_ = 0, account_s_ = 0, reserved_s_ = 0, pending_s_ = 0, spent_s_ = 0, margin_ = kMargin;
  bool is_timed_judged_ = false;  // the time of that call contains judging
  double judged_s_ = 0;           // what judging a result takes, as measured; 0: not known
  double booked_s_ = 0;           // for the judging of that call
  std::uint64_t last_dense_ = 0, last_agreement_ = 0, paused_until_ = 0;
  Settled settled_;
  std::size_t last_favourite_ = 0;
  std::uint64_t favoured_since_ = 0, changed_at_ = 0;  // calls; changed: all began to be measured again
  unsigned splits_ = 0;
  // Where the slowest rank counts: MPI's first time, until there is a second one; and the agreements until
  // then, which are more than the first account bears.
  double first_dense_s_ = 0;
  unsigned unpaid_agreements_ = 0;
  bool wants_dense_ = false;
};

// What became of a class.
struct ChoiceSummary {
  KnownClass known;
  Chooser::Totals totals;
  Chooser::Counts counts;
  // Another communicator's summary of the same class: the line that was learnt from most calls stays.
  void add(const ChoiceSummary& other);
};

}  // namespace mq
