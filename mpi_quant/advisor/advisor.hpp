// Looks at calls that stay exact and tries what compression would have done to them. Sees a share of the
// calls, chosen so that its own time stays below 3 % of the program's. Knows no MPI.
//
// For a class of calls: the statistics of its values, and for each candidate two trials, on a window of this
// rank's input and on the same window of the result: the aggregate is what its owner encodes once more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/advisor/trial.hpp"
#include "mpi_quant/advisor/values.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/report/record.hpp"

namespace mq {

// What one rank saw of a class.
struct ClassSamples {
  kernels::Element element = kernels::Element::f32;
  std::uint64_t samples = 0;
  ValueStatistics values;  // of the inputs
  // To read an element of an input for the first time; of the sample in which it took least, because what
  // interrupts a sample costs more than all of its memory.
  double memory_s = 0;
  std::vector<Trial> input, result;  // by candidate
  bool operator==(const ClassSamples&) const = default;
};

// What one rank saw.
using Samples = std::map<ClassId, ClassSamples>;

// For the way to the rank that writes the advice. parse is for texts of to_text of the same version alone:
// for anything else it returns false and leaves `out` alone.
std::string to_text(const Samples&);
bool parse(std::string_view text, Samples& out);

using Clock = double (*)() noexcept;  // seconds; never goes back

class Advisor {
 public:
  // The share of the time since the first call that may be spent here, and what may be spent beyond it.
  static constexpr double kShare = 0.03, kGrace_s = 0.020;

  explicit Advisor(kernels::Isa isa, Clock clock = steady_s) : isa_(isa), clock_(clock) {}

  // After an exact call that did not reduce in place: count > 0 elements of f32 or f64. The first call of
  // each class is always sampled. Never fails; without memory it sees nothing.
  void see(const ClassId& id, const std::byte* input, std::size_t count, kernels::Element element,
           const std::byte* result) noexcept;

  // The same for a call in place, whose input is gone afterwards: keep() before it, see() after it. Empty if
  // the call is not sampled; else the copy of a window.
  struct Kept {
    Buffer input;
    std::size_t begin = 0, n = 0;  // elements; n = 0: empty
    kernels::Element element = kernels::Element::f32;
    double memory_s = 0;
  };
  Kept keep(const ClassId& id, const std::byte* input, std::size_t count, kernels::Element element) noexcept;
  void see(const ClassId& id, const Kept& kept, const std::byte* result) noexcept;

  Samples samples() const;
  double spent_s() const;  // in here, so far

 private:
  class Timed;
  bool affords(const ClassSamples& own, std::size_t elements) const;
  void sample(ClassSamples& into, const std::byte* input, const std::byte* result, std::size_t n,
              kernels::Element element, double memory_s);

  const kernels::Isa isa_;
  const Clock clock_;
  mutable std::mutex mutex_;
  Trials trials_;
  Samples samples_;
  double first_s_ = -1, spent_s_ = 0;
  double element_s_ = 0;  // what a sample is expected to cost, for each of its elements
};

// The window that sample number k of a class looks at, of `count` elements: {first element, elements}. The
// windows of the first k samples lie spread over the vector, whatever k is.
struct Window {
  std::size_t begin = 0, n = 0;
};
Window window_of(std::uint64_t k, std::size_t count);

// A candidate on a class, over all ranks that sampled it.
struct MethodSums {
  // Of contributions, summed over the ranks that measured any: means of an element.
  double error2 = 0, norm2 = 0, decoded2 = 0;
  int ranks = 0;
  Trial input, result;  // of all ranks together
};
struct ClassSums {
  kernels::Element element = kernels::Element::f32;
  std::uint64_t samples = 0;
  int ranks = 0;  // that sampled it
  ValueStatistics values;
  double memory_s = 0;              // of an element, summed over the ranks
  std::vector<MethodSums> methods;  // by candidate
  void add(const ClassSamples& of_rank);
};

// How often an element is rounded on its way through a plan: the share of contributions that are encoded, and
// how many times the aggregate is.
struct Losses {
  double contributions = 1, aggregate = 1;
};

// The estimated error of a sum over so many ranks, relative L2; without feedback. Rounding errors of
// different ranks, and of the two stages, are taken as uncorrelated. What is encoded once more is the sum of
// what was decoded: its energy is that of the exact result times decoded2 / norm2 of the contributions.
// Nothing if it is not known; infinite if a finite value came out as Inf.
std::optional<double> estimated_error(const MethodSums& sums, int ranks, const Losses& losses);

// The energy of the result over the sum of the energies of the inputs: 1 where the vectors of the ranks are
// uncorrelated, and `ranks` where they are equal. 1 if not known.
double resemblance(const MethodSums& sums, int ranks);

}  // namespace mq
