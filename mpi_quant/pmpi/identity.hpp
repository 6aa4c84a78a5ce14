// Whose residual is whose when the program does not say: keys for the residuals of unmodified programs, and
// the reasons to drop one. A wrong residual is worse than none, by orders of magnitude where tensors differ
// in scale, so a residual is dropped whenever there is doubt. Everything here is one rank's own: ranks may
// come to different keys, and to different drops; that changes numbers, never communication.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "kernels/codec.hpp"
#include "mpi_quant/policy.hpp"
#include "mpi_quant/report/record.hpp"
#include "mpi_quant/residuals.hpp"

namespace mq {

// How large the values of a vector are, in 16 parts: the logarithm of their mean magnitude, and how far
// chance alone may move it. Two vectors of one tensor, step after step, are alike in it; those of two tensors
// are not, or a residual of one does little harm to the other.
class Profile {
 public:
  static constexpr std::size_t kParts = 16;
  // From a quarter of the values, but at most 1024 of each part: at most 8 microseconds.
  // finite() is false if one of them is not.
  // x may be on a device, whose values are copied; not finite() if that fails.
  static Profile of(const std::byte* x, std::size_t n, kernels::Element element);
  bool finite() const { return finite_; }
  // Mean difference of the parts beyond what may be chance, each at most kFarApart. A part in which only one
  // has anything but zeros says nothing, as the few values of a sparse vector fall here or there.
  double distance(const Profile& other) const;
  // Follows slow changes.
  void approach(const Profile& newer);

  static constexpr double kFarApart = 3;
  // Beyond it two vectors are not of one tensor: a factor of e^0.3 in all parts. A loss scale that doubles
  // (0.69) is beyond it, rightly: the residual is in the old unit.
  static constexpr double kTooFar = 0.3;

 private:
  struct Part {
    double log_mean = 0, chance = 0;  // chance: of log_mean, one standard deviation
  };
  template <class T>
  static Part part_of(const T* x, std::size_t n);
  std::array<Part, kParts> parts_{};
  bool finite_ = true;
};

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
    Key key;  // empty: no feedback for this call
    Feedback what = Feedback::none;
    // With a key: how many flushes this residual has seen. The caller's to set, until the next call of
    // identify().
    std::uint64_t* flushed = nullptr;
  };
  // For each sum that comes as far as the policy, before anything else: counts the positions of a step.
  void begin_call(std::uint64_t step);
  // The key for a call, whose residual is then there, of the right shape, and in `residuals`. Drops what is
  // in doubt. most_bytes: of all residuals of the process. Once for each call that a rule with this identity
  // chose. May throw std::bad_alloc.
  Found identify(Identity by, const Sender& sender, Residuals& residuals, std::uint64_t most_bytes);
  // The key of a call whose residual is there; empty if it is not. Changes nothing.
  Key held(Identity by, const Sender& sender, const Residuals& residuals) const;

 private:
  struct Place {
    const std::byte *begin = nullptr, *end = nullptr;  // of the memory, if the address is the identity
    std::size_t count = 0;
    kernels::Element element = kernels::Element::f32;
    Profile profile;
    std::uint64_t uses = 0, last_call = 0, flushed = 0;
    bool disturbed = false;  // another call used the memory
  };
  // Fewer uses of an address may be chance: memory of short life.
  static constexpr std::uint64_t kYoung = 3;
  // More calls of the communicator in between, and an address may belong to something else.
  static constexpr std::uint64_t kTooOld = 4096;

  static constexpr std::size_t kMostAddresses = 1024;
  using Places = std::map<std::string, Place>;

  std::string name_of(Identity by, const Sender& sender) const;
  void disturb(const std::string& name, const Sender& sender);
  Place& address_of(const std::string& name, Residuals& residuals);
  Feedback doubt(const Place& place, Identity by, const Sender& sender, const Profile& profile) const;

  Places keys_, addresses_;  // keys: positions too
  std::uint64_t calls_ = 0, step_ = 0;
  std::uint64_t next_position_ = 0, position_ = 0;  // of the call after this one, and of this one
};

}  // namespace mq
