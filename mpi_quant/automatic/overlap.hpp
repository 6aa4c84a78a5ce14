// Calls that may be in flight together, non-blocking and persistent ones: does it pay to compress them? What
// a program hides behind its own work costs it nothing, and then it does not.
//
// What such a call costs is the time that its program spends in the library: in the functions that start,
// test and complete calls. While several are in flight, whichever function the program is in advances all of
// them. So each second there is divided among the calls that are in flight (as processor sharing does).
//
// Each rank brings what its own last calls cost it to the agreement that such a call makes anyway: with the
// method that was chosen, and with MPI's reduction. All ranks get the same two numbers from that agreement,
// and it alone decides its call. So ranks may see calls end in any order, and nothing that they heard before
// needs to be the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mpi_quant/automatic/heard.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

// Divides the seconds that a program spends in the library among the calls that are in flight. now: seconds
// of a clock that does not go back.
class SharedTime {
 public:
  // A thread of the program comes to the library, and leaves it. Several may be there at once.
  void enter(double now) {
    advance(now);
    ++inside_;
  }
  void leave(double now) {
    advance(now);
    --inside_;
  }
  // A call begins. What is returned is to be given to finish().
  double start(double now) {
    advance(now);
    ++in_flight_;
    return shared_;
  }
  // The call is over. Its share since start(), in seconds.
  double finish(double now, double started) {
    advance(now);
    --in_flight_;
    return shared_ - started;
  }

 private:
  void advance(double now) {
    if (inside_ > 0 && in_flight_ > 0) shared_ += (now - last_) / static_cast<double>(in_flight_);
    last_ = now;
  }
  double last_ = 0, shared_ = 0;  // shared_: what a call would have got that was in flight from the beginning
  int inside_ = 0, in_flight_ = 0;
};

// What the last calls of a class cost this rank: those that MPI reduced, and those by each of the last
// methods that were chosen. A persistent call may have another method than the calls beside it.
class Overlap {
 public:
  // method: that was chosen for the call, with its plan. seconds: the call's share of SharedTime, as if its
  // vector had the size that stands for the class.
  void took(const Method& method, bool by_codec, double seconds);
  // Sets the times only: of calls by this method, and of calls that MPI reduced.
  void bring(const Method& method, TimedRank timed, Heard& into) const;
  // Whether the codec runs in the call with this number, by what its agreement brought. The slower of codec
  // and MPI's reduction runs now and then, too, so that a change is seen: so rarely that it costs one
  // hundredth. The first calls are exact.
  static bool runs(const Heard& agreed, TimedRank timed, std::uint32_t number);

 private:
  class Last {
   public:
    void add(double seconds) { seconds_[n_++ % seconds_.size()] = seconds; }
    void forget() { n_ = 0; }
    // The mean of the last calls without the longest. 0: there were too few.
    double mean_s() const;

   private:
    std::array<double, 8> seconds_{};
    std::size_t n_ = 0;
  };
  // method: of no call yet if it is exact.
  struct ByCodec {
    Method method;
    Last last;
    double slowest_s = 0;       // the greatest mean since MPI's times are of use
    std::uint64_t used_at = 0;  // the number of calls by then
  };
  std::array<ByCodec, 4> codecs_{};
  Last mpi_;
  std::uint64_t calls_ = 0;
};

}  // namespace mq
