// Looks at calls that stay exact, and tries what compression would have done to them. It samples only some of
// the calls, so that it takes less than 3 % of the program's time. Uses no MPI.
//
// For a class of calls it collects the statistics of the values. For each candidate it makes two trials: on a
// window of this rank's input, and on the same window of the sum, if this rank has one. The sum is tried
// because its owner may encode it once more. What is gathered or broadcast is the input of some rank, and so
// it needs one trial, there.
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
#include "mpi_quant/plan/layout.hpp"
#include "mpi_quant/plan/losses.hpp"
#include "mpi_quant/report/record.hpp"

namespace mq {

// What one rank saw of a class.
struct ClassSamples {
  kernels::Element element = kernels::Element::f32;
  std::uint64_t samples = 0;
  std::uint64_t elements = 0;  // of this rank's whole inputs in the sampled calls
  ValueStatistics values;      // of the inputs
  // Seconds to read an element of an input for the first time. The smallest of all samples is kept, because
  // an interruption costs more than all memory accesses of a sample.
  double memory_s = 0;
  std::vector<Trial> input, result;  // by candidate
  bool operator==(const ClassSamples&) const = default;
  static void each_field(auto& own, auto& f) {
    f(own.element);
    f(own.samples);
    f(own.elements);
    f(own.values);
    f(own.memory_s);
    f(own.input);
    f(own.result);
  }
};

// What one rank saw. It goes to the rank that writes the advice as base/pack.hpp packs it.
using Samples = std::map<ClassId, ClassSamples>;

// The kind (base/pack.hpp) of what ranks send with such samples. A trial is known by its place in the list of
// candidates. So a rank of another build, or with another MPIQ_ADVISE_ERROR, that has another list is
// refused.
std::string record_kind(std::string_view version, std::span<const Candidate> tried);

using Clock = double (*)() noexcept;  // seconds; never goes back

// What a rank has of the vector of a call: its input, and its part of the sum. Each pointer is to the first
// element of its range. Elements of f32 or f64.
struct Vectors {
  const std::byte* input = nullptr;
  Range input_range = {};  // empty: this rank contributes nothing
  const std::byte* result = nullptr;
  Range result_range = {};  // empty: this rank gets no sum
  kernels::Element element = kernels::Element::f32;
};

// The window that sample number k of a class looks at, in a vector of `count` elements: {first element,
// number of elements}. For every k the windows of the first k samples are spread over the whole vector. The
// first of them is at this share of the vector.
struct Window {
  std::size_t begin = 0, n = 0;
};
Window window_of(std::uint64_t k, std::size_t count, double first = 0);

class Advisor {
 public:
  // The share of the time since the first call that may be spent here, and the seconds that may be spent in
  // addition.
  static constexpr double kShare = 0.03, kGrace_s = 0.020;

  explicit Advisor(kernels::Isa isa, Clock clock = steady_s) : isa_(isa), clock_(clock) {}

  // To be called after an exact call that left its input as it was. The first call of each class is always
  // sampled. Never fails; if there is no memory, the call is not sampled.
  void see(const ClassId& id, const Vectors& vectors) noexcept;

  // A sum in place overwrites its input. So keep() is called before it and see() after it. Kept is a copy of
  // a window, or empty if the call is not sampled.
  struct Kept {
    Buffer input;
    std::size_t n = 0;  // elements; 0: empty
    Window result;
    double memory_s = 0;
  };
  Kept keep(const ClassId& id, const Vectors& vectors) noexcept;
  void see(const ClassId& id, const Kept& kept, const Vectors& vectors) noexcept;

  Samples samples() const;
  double spent_s() const;  // time spent here so far

 private:
  class Timed;
  struct Windows;
  std::optional<Windows> begin_sample(ClassSamples& own, const Vectors& vectors, Timed& timed);
  bool affords(const ClassSamples& own, std::size_t elements) const;
  void sample(ClassSamples& into, const std::byte* input, std::size_t n, const std::byte* result,
              std::size_t result_n, kernels::Element element, int ranks, double memory_s);

  const kernels::Isa isa_;
  const Clock clock_;
  mutable std::mutex mutex_;
  Trials trials_;
  Samples samples_;
  double first_s_ = -1, spent_s_ = 0;
  double element_s_ = 0;  // the expected cost of a sample per element
};

// Sums of one candidate and one class, over all ranks that sampled the class.
struct MethodSums {
  // Contributions: means per element, times the elements of a rank, summed over the ranks that measured any.
  double error2 = 0, norm2 = 0, decoded2 = 0;
  double elements = 0;
  Trial input, result;  // of all ranks together
};
struct ClassSums {
  kernels::Element element = kernels::Element::f32;
  std::uint64_t samples = 0;
  int ranks = 0;  // ranks that sampled the class
  ValueStatistics values;
  double memory_s = 0;              // per element, summed over the ranks
  std::vector<MethodSums> methods;  // by candidate
  void add(const ClassSamples& of_rank);
};

// The estimated relative L2 error of a sum over this many ranks, without feedback. Rounding errors of
// different ranks, and of the two stages, are assumed to be uncorrelated. What is encoded in the second stage
// is a sum of decoded values: its energy is the energy of the exact result times decoded2 / norm2 of the
// contributions. Empty if the error is not known; infinite if a finite value came out as Inf. One rank: of
// what is gathered or broadcast, which is no sum.
std::optional<double> estimated_error(const MethodSums& sums, int ranks, const Losses& losses);

// The energy of the result divided by the sum of the energies of the inputs. It is 1 if the vectors of the
// ranks are uncorrelated, and `ranks` if they are equal. It is also 1 if nothing is known.
double resemblance(const MethodSums& sums, int ranks);

}  // namespace mq
