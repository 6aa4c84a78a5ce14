// What `auto` needs from a communicator: a chooser (automatic/chooser.hpp) for each class of calls, the times
// of this rank's calls, and what the candidates do to samples of its vectors.
//
// A class is a collective, an element type, a limit, and sizes within a factor of the square root of two. For
// calls of several vectors it is their size together, and their number within a factor of two.
// Calls that may be in flight together, non-blocking and persistent ones, take the favourite of their class
// and teach it nothing: ranks see the ends of such calls in different orders. Their own agreement decides
// whether it runs: see automatic/overlap.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mpi_quant/automatic/chooser.hpp"
#include "mpi_quant/automatic/own_times.hpp"
#include "mpi_quant/core/answer.hpp"
#include "mpi_quant/core/call_samples.hpp"
#include "mpi_quant/core/chosen.hpp"
#include "mpi_quant/core/guard.hpp"

namespace mq {

class CommState;
struct Decision;
struct Situation;

// Chooses for a call by what all ranks know. The mutex of the state must be held.
Chosen choose_automatically(const Situation& situation, const Automatic& limit) noexcept;

const AutoCandidate& candidate_of(const Chosen& chosen);
// False if something else changed the decision: this rank lets MPI reduce, or sends a residual with the call.
bool follows_choice(const Decision& decision);
// Is to be told how long MPI's reduction of the call took; null: nobody. has_agreed: the ranks have just
// agreed, so they begin it together.
CallClock* clock_of(const Chosen& chosen, bool has_agreed);

// Brings times, and what the samples say, to the agreement of a call.
void bring(const CommState& state, Chosen& chosen, const Call& call, kernels::Element element,
           const CallResiduals& waiting, Heard& heard) noexcept;
// After the agreement, if all ranks agreed. runs: by the choice. number: of the call on its communicator. A
// reason why MPI reduces: a sample lost too much; or ranks do not know the same, because one of them had an
// error in an earlier call, and then they learn from the beginning; or it is faster in a call that is not
// blocking.
std::optional<Reason> hear(const Chosen& chosen, const Heard& heard, bool runs,
                           std::uint32_t number) noexcept;
// Some ranks decided otherwise, so MPI reduces.
void disagree(const Chosen& chosen, const Heard& heard) noexcept;
// The codecs have reduced the call.
void took(const Chosen& chosen) noexcept;
// A call that is not blocking is over. seconds: its share of the time in the library.
void took_of_program(const Chosen& chosen, bool by_codec, double seconds) noexcept;

// What became of the classes of all communicators of this process, those that are freed included.
std::vector<ChoiceSummary> choice_summaries();

// Compares the result of a call with the exact sum, if the choice says so.
class ChoiceJudge {
 public:
  // Before the call. Keeps its input. An error means that this rank lacks memory. The mutex must be held.
  Status prepare(const CommState& state, const Chosen& chosen, const Call& call, kernels::Element element);
  // After the call. Collective, if the codecs ran. The mutex must not be held.
  Outcome judge(CommState& state, const Chosen& chosen, const Call& call, Outcome outcome);

 private:
  bool is_judged_ = false;
  GuardedCall guarded_;
};

}  // namespace mq
