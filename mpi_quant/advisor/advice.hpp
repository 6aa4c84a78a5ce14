// Turns what all ranks saw into advice. For each class of calls, of any collective, that a codec could serve,
// it says how long each candidate would take and how large its error would be; then it suggests a policy to
// try. Uses no MPI.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/advisor/advisor.hpp"
#include "mpi_quant/base/link.hpp"
#include "mpi_quant/report/record.hpp"

namespace mq {

// A call that was made to check the model: its predicted and its measured time.
struct Validation {
  std::string method;  // of a candidate, or kExact: MPI's own call, with the time that the link alone needs
  ClassId of;          // the class whose calls this one imitates
  double bytes = 0;
  double predicted_s = 0, measured_s = 0;
};

// How busy the processors were during the program, at the worst place.
struct Cores {
  double waited = 0;         // share of the run in which a rank was ready to run but had no core
  int ranks = 0, cores = 0;  // of the node with the most ranks per core; 0: not known
};

// What the advice is based on, all of it from one run. Records and samples are ordered by rank.
struct Evidence {
  std::span<const Record> records;
  std::span<const Samples> samples;
  std::optional<LinkModel> link;  // none: the link was not measured, and nothing is predicted
  std::span<const Validation> validations;
  Cores cores = {};
  double error = 0;  // the largest error of one call that the user accepts; 0: the user gave none
};

// A rule names a method only if it makes a call at least kLeastSpeedup times faster. A method needs feedback
// if its error exceeds the limit, which is kCareful unless the user gives another.
inline constexpr double kLeastSpeedup = 1.1, kCareful = 0.01;

// If the model misses a time by a larger factor, no speed-up is promised.
inline constexpr double kMostMiss = 3;
bool misses(double predicted_s, double measured_s);

// The reason why no speed-up is promised.
enum class Doubt : std::uint8_t {
  none,
  model,   // the exact call did not take the time that the model of the link predicts
  check,   // the method did not take its predicted time when it was tried
  slower,  // when the method was tried, it was not faster than the exact call
};

struct MethodAdvice {
  std::string_view method;
  std::optional<double> predicted_s;
  std::optional<double> measured_s;  // when it was tried with the calls of this class, beside the exact one
  Doubt doubt = Doubt::none;
  // Compared with the exact call that was tried, or else with ClassAdvice::exact_s. None where it is in
  // doubt.
  std::optional<double> speedup;
  double bytes_per_element = 0;
  // relative L2 error of one call without feedback; infinite if a value overflows
  std::optional<double> error;
  double seconds() const { return measured_s ? *measured_s : *predicted_s; }  // of a method with a speed-up
  bool fast() const { return speedup && *speedup > kLeastSpeedup && error && std::isfinite(*error); }
  bool within(double limit) const { return error && *error <= limit; }
};

struct ClassAdvice {
  ClassId id;
  Collective collective = Collective::allreduce;
  std::uint64_t calls = 0;                           // on the rank with the most calls
  double bytes = 0;                                  // mean per call
  double min_s = 0, mean_s = 0, max_s = 0;           // seconds per call: over the means of the ranks
  std::uint64_t samples = 0;                         // on all ranks together
  kernels::Element element = kernels::Element::f32;  // of the samples, if there are any
  ValueStatistics values;
  double resemblance = 1;         // see advisor.hpp
  std::optional<double> dense_s;  // time of an exact call, by the model
  // Seconds of an exact call without the wait for late ranks. The rank that comes last waits for nobody, so
  // this is min_s. With a root that does not hold, because a rank that only sends leaves before the others
  // have the result. There the model says how long the call takes, but not more than max_s, which includes
  // waiting, and not less than min_s.
  double exact_s = 0;
  std::vector<MethodAdvice> methods;  // empty if there are no samples
  // Whether the part that one call leaves out can be added to the next call. It cannot for counts, because a
  // program uses each count alone, nor for what is gathered or broadcast, because nobody adds that up.
  bool bears_feedback() const { return adds(collective) && !mostly_whole(values); }
};

// Classes of calls with at least 64 KiB on two or more ranks, sorted by time, longest first.
std::vector<ClassAdvice> advise(const Evidence& evidence);

// Rules for the classes that some method makes faster; "" if there is none. Without with_feedback only
// methods within the error limit are used. With it all methods are used, and those beyond the limit get
// feedback.
std::string policy_of(std::span<const ClassAdvice> classes, double limit, bool with_feedback);
// The same, without feedback, but the rules leave the choice of the method to auto. Without rules for
// collectives that auto does not serve.
std::string auto_policy_of(std::span<const ClassAdvice> classes, double limit);

// For people: about 100 columns wide; ends with a line break.
std::string advice_text(const Evidence& evidence);
// For programs: an array of classes, and the policies to try.
std::string advice_json(const Evidence& evidence);
std::string suggestion_json(const Evidence& evidence);

}  // namespace mq
