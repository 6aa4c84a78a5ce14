// Keys for the residuals of unmodified programs: finds out which residual belongs to which call.
//
// A key that the program states is taken as it is. An address, or a position in a step, has to be confirmed
// first: the vectors that came under it must have shown that they are one tensor (recognizer.hpp). A wrong
// residual is worse than none.
//
// Until the confirmation nothing is fed back. While each vector is like the one before it, what the calls
// leave out is kept. The first confirmed call gets all of it, so that nothing of the tensor is lost. When a
// vector is not like the one before it, what was kept is dropped, because it belongs to no known tensor.
//
// After the confirmation, a vector that is none of the known tensors is reduced without feedback. The
// residuals stay and wait for their tensors.
//
// Everything here is local to one rank. Ranks may choose different keys and drop different residuals. This
// changes numbers, never communication.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "kernels/codec.hpp"
#include "mpi_quant/memory/feedback_outcome.hpp"
#include "mpi_quant/memory/recognizer.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

// What is known about a call when its residual is looked up.
struct Sender {
  const std::byte* input;
  std::size_t count;
  kernels::Element element;
  std::string_view key;    // stated with MPI_Pcontrol; "" for none
  std::uint64_t step;      // number of steps that MPI_Pcontrol has announced
  std::uint64_t flush;     // number of flushes that MPI_Pcontrol has announced
  std::size_t arrays = 1;  // of the method's memory rule
  bool gathers = false;    // the call adds nothing up, and no sum may use its residual
  // Elements of the vector of all ranks, if the rule keeps one estimate of it (MemoryRule::mirrors); else 0.
  std::size_t mirrored = 0;
  std::size_t kept() const { return mirrored > 0 ? mirrored : count; }  // elements of an array of the rule
};

// The identities of one communicator.
class Identities {
 public:
  struct Found {
    // The key of the residual that the call uses. Empty: the call uses none. With
    // FeedbackOutcome::unconfirmed this residual is zero before the call. What the call leaves in it is fed
    // back once the identity is confirmed.
    Key key;
    FeedbackOutcome what = FeedbackOutcome::none;
    // With feedback: the number of flushes that this residual has seen. The caller updates it, before the
    // next call of identify(). Null without feedback.
    std::uint64_t* flushed = nullptr;
  };
  // Counts the positions of a step. To be called first, for each sum that the policy is asked about.
  void begin_call(std::uint64_t step);
  // Finds the key for a call. Its residual then exists in `residuals` and has the right shape. most_bytes
  // limits all residuals of the process. To be called once for each call that a rule with this identity
  // chose. May throw std::bad_alloc.
  Found identify(Identity by, const Sender& sender, Residuals& residuals, std::uint64_t most_bytes);
  // The key of a residual that exists and waits for this call. Empty if there is none. Changes nothing.
  Key held(Identity by, const Sender& sender, const Residuals& residuals) const;

 private:
  // What is known of the vectors under a name that the program did not state.
  struct KnownVector {
    std::size_t count = 0, kept = 0;  // as of the Sender
    kernels::Element element = kernels::Element::f32;
    std::size_t arrays = 1;
    Recognizer recognizer;
    std::uint64_t unconfirmed = 0;  // calls since the last confirmation
    std::uint64_t last_call = 0;
    std::array<std::uint64_t, Recognizer::kMostPeriod> flushed{};  // one for each tensor in turn
  };
  using KnownVectors = std::map<std::string, KnownVector>;

  // After kPatience calls of a name without a confirmation, calls up to number kPatience + kRest are not
  // looked at. A pattern that has not shown by then hardly ever will, and a look takes some 20 microseconds.
  static constexpr std::uint64_t kPatience = 64, kRest = 1024;
  // How many names are remembered. A confirmed name takes some 10 KiB for each of its tensors. A name that
  // is not confirmed takes up to 35 KiB.
  static constexpr std::size_t kMostPlaces = 1024;

  std::string name_of(Identity by, const Sender& sender) const;
  // entry: the residual of this name, if there is one.
  Found promised(const std::string& name, const Residuals::Entry* entry, const Sender& sender,
                 Residuals& residuals, std::uint64_t most_bytes);
  Found recognised(const std::string& name, const Sender& sender, Residuals& residuals,
                   std::uint64_t most_bytes);
  Found judge(KnownVectors::value_type& at, const Sketch& sketch, Residuals& residuals,
              std::uint64_t most_bytes);
  KnownVector& vector_of(const std::string& name, const Sender& sender, Residuals& residuals);
  bool make_room(std::size_t bytes, const std::string& name, Residuals& residuals, std::uint64_t most_bytes);

  std::map<std::string, std::uint64_t> promised_;  // stated keys, and how many flushes each has seen
  KnownVectors places_;
  std::uint64_t calls_ = 0, step_ = 0;
  std::uint64_t next_position_ = 0, position_ = 0;  // position of the next call, and of this one
};

}  // namespace mq
