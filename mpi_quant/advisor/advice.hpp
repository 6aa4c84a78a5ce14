// What all ranks saw, turned into advice: for each class of calls that a codec could serve, how long each
// candidate would take and how wrong it would be, and the policy to try. Knows no MPI.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/advisor/advisor.hpp"
#include "mpi_quant/advisor/link.hpp"
#include "mpi_quant/report/record.hpp"

namespace mq {

// A sum that was made to check the model: what the model said of it, and what it took.
struct Validation {
  std::string method;  // of a candidate, or kExact: MPI's own sum, with the time that the link alone needs
  ClassId of;          // the class whose calls it is like
  double bytes = 0;
  double predicted_s = 0, measured_s = 0;
};

// The processors of the program, where they were worst.
struct Cores {
  double waited = 0;         // share of the run in which a rank was ready and had no core
  int ranks = 0, cores = 0;  // of the node with most ranks a core; 0: not known
};

// Everything is of one run; records and samples by rank.
struct Evidence {
  std::span<const Record> records;
  std::span<const Samples> samples;
  std::optional<LinkModel> link;  // none: not measured, nothing is predicted
  std::span<const Validation> validations;
  Cores cores = {};
  double error = 0;  // the largest error of one call that may be suggested, by the user; 0: said nothing
};

// Rules are made of methods that shorten a call at least so much. Those with errors beyond the limit,
// kCareful unless the user says another, need feedback.
inline constexpr double kLeastSpeedup = 1.1, kCareful = 0.01;

// A model that misses a time by a larger factor promises nothing.
inline constexpr double kMostMiss = 3;
bool misses(double predicted_s, double measured_s);

// Why no speed-up is promised.
enum class Doubt : std::uint8_t {
  none,
  model,   // the exact sum took another time than the model of the link says
  check,   // so did the method, when it was tried
  slower,  // when it was tried it was not faster than the exact sum
};

struct MethodAdvice {
  std::string_view method;
  std::optional<double> predicted_s;
  Doubt doubt = Doubt::none;
  std::optional<double> speedup;  // over the least mean of a rank's dense calls; none where it is in doubt
  double bytes_per_element = 0;
  std::optional<double> error;  // relative L2, of one call without feedback; infinite: overflows
  bool fast() const { return speedup && *speedup > kLeastSpeedup && error && std::isfinite(*error); }
  bool within(double limit) const { return error && *error <= limit; }
};

struct ClassAdvice {
  ClassId id;
  std::uint64_t calls = 0;                           // of the rank with most
  double bytes = 0;                                  // mean of a call
  double min_s = 0, mean_s = 0, max_s = 0;           // seconds of a call: over the means of the ranks
  std::uint64_t samples = 0;                         // of all ranks
  kernels::Element element = kernels::Element::f32;  // if there are any
  ValueStatistics values;
  double resemblance = 1;             // see advisor.hpp
  std::optional<double> dense_s;      // of an exact call, by the model
  std::vector<MethodAdvice> methods;  // none without samples
  // Could what one call leaves out be added to the next? Not to counts, which are used one by one.
  bool bears_feedback() const { return !mostly_whole(values); }
};

// Classes of sums of at least 64 KiB on two ranks or more, those with most time first.
std::vector<ClassAdvice> advise(const Evidence& evidence);

// Rules for the classes that a method makes faster, "" if there is none: of methods whose error is within the
// limit; or of all, those beyond it with feedback.
std::string policy_of(std::span<const ClassAdvice> classes, double limit, bool with_feedback);

// For people: some hundred columns, ends with a line break.
std::string advice_text(const Evidence& evidence);
// For programs: an array of classes; and the policies to try.
std::string advice_json(const Evidence& evidence);
std::string suggestion_json(const Evidence& evidence);

}  // namespace mq
