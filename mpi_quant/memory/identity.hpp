// Whose residual is whose when the program does not say: keys for the residuals of unmodified programs.
//
// A key that the program states is a promise, and is believed. An address, or a position in a step, is
// believed once the vectors that came under it have shown that they are one tensor (recognizer.hpp), for a
// wrong residual is worse than none. Until then
//
//   nothing is fed back, and what each call drops is kept as long as each vector is like the one before;
//   the first call that is confirmed gets it all, so that nothing of the tensor is lost. Of vectors that
//   are not like the one before it is dropped: it belongs to nobody who would come again.
//
// A vector that is none of the confirmed tensors is reduced without feedback, and residuals wait for theirs.
//
// Everything here is one rank's own: ranks may come to different keys, and to different drops; that changes
// numbers, never communication.
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

// What is known of a call whose residual is looked for.
struct Sender {
  const std::byte* input;
  std::size_t count;
  kernels::Element element;
  std::string_view key;  // by MPI_Pcontrol; "" for none
  std::uint64_t step;    // how many steps MPI_Pcontrol has announced
  std::uint64_t flush;   // how many flushes
};

// Of one communicator.
class Identities {
 public:
  struct Found {
    // Of the residual that the call uses; empty: none. With Feedback::unconfirmed that residual is zero
    // before the call, and what it is afterwards is fed back once the identity is confirmed.
    Key key;
    FeedbackOutcome what = FeedbackOutcome::none;
    // With feedback: how many flushes this residual has seen. The caller's to set, until the next call of
    // identify(). Else null.
    std::uint64_t* flushed = nullptr;
  };
  // For each sum that comes as far as the policy, before anything else: counts the positions of a step.
  void begin_call(std::uint64_t step);
  // The key for a call, whose residual is then there, of the right shape, and in `residuals`. most_bytes: of
  // all residuals of the process. Once for each call that a rule with this identity chose. May throw
  // std::bad_alloc.
  Found identify(Identity by, const Sender& sender, Residuals& residuals, std::uint64_t most_bytes);
  // The key of a call whose residual is there and waits for it; empty if there is none. Changes nothing.
  Key held(Identity by, const Sender& sender, const Residuals& residuals) const;

 private:
  // What came under a name that nobody promised.
  struct KnownVector {
    std::size_t count = 0;
    kernels::Element element = kernels::Element::f32;
    Recognizer recognizer;
    std::uint64_t unconfirmed = 0;  // calls since something was confirmed last
    std::uint64_t last_call = 0;
    std::array<std::uint64_t, Recognizer::kMostPeriod> flushed{};  // of each tensor in turn
  };
  using KnownVectors = std::map<std::string, KnownVector>;

  // So many calls of a name without a confirmation, and the next ones are not looked at: what has no pattern
  // now will hardly get one, and looking costs some 20 microseconds.
  static constexpr std::uint64_t kPatience = 64, kRest = 1024;
  // Names that are remembered. Each of the tensors of one that is confirmed takes some 10 KiB; what is not
  // confirmed takes up to 35 KiB.
  static constexpr std::size_t kMostPlaces = 1024;

  std::string name_of(Identity by, const Sender& sender) const;
  Found promised(const std::string& name, const Sender& sender, Residuals& residuals,
                 std::uint64_t most_bytes);
  Found recognised(const std::string& name, const Sender& sender, Residuals& residuals,
                   std::uint64_t most_bytes);
  Found judge(KnownVectors::value_type& at, const Sketch& sketch, Residuals& residuals,
              std::uint64_t most_bytes);
  KnownVector& vector_of(const std::string& name, const Sender& sender, Residuals& residuals);
  bool make_room(std::size_t bytes, const std::string& name, Residuals& residuals, std::uint64_t most_bytes);

  std::map<std::string, std::uint64_t> promised_;  // keys, and how many flushes each has seen
  KnownVectors places_;
  std::uint64_t calls_ = 0, step_ = 0;
  std::uint64_t next_position_ = 0, position_ = 0;  // of the call after this one, and of this one
};

}  // namespace mq
