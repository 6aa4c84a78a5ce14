// What all ranks saw, turned into advice: for each class of calls that a codec could serve, how long each
// candidate would take and how wrong it would be, and the policy to try. Knows no MPI.
#pragma once

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

// A method with what the model said of it and what it took.
struct Validation {
  std::string what;  // "bf16, 16M@4"
  double predicted_s = 0, measured_s = 0;
};

// Everything is of one run; records and samples by rank.
struct Evidence {
  std::span<const Record> records;
  std::span<const Samples> samples;
  std::optional<LinkModel> link;  // none: not measured, nothing is predicted
  std::span<const Validation> validations;
};

// Rules are made of methods that shorten a call at least so much, and careful ones of those whose estimated
// error is below kCareful.
inline constexpr double kLeastSpeedup = 1.1, kCareful = 0.01;

struct MethodAdvice {
  std::string_view method;
  std::optional<double> predicted_s;
  std::optional<double> speedup;  // over the least mean of a rank's dense calls
  double bytes_per_element = 0;
  std::optional<double> error;  // relative L2, of one call without feedback; infinite: overflows
  bool fast() const { return speedup && *speedup > kLeastSpeedup; }
  bool careful() const { return fast() && error && *error < kCareful; }
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
};

// Classes of sums of at least 64 KiB on two ranks or more, those with most time first.
std::vector<ClassAdvice> advise(const Evidence& evidence);

// Rules for the classes that a method makes faster: the fastest of each, or the fastest careful one. "" if
// there is none.
std::string policy_of(std::span<const ClassAdvice> classes, bool careful);

// For people: some hundred columns, ends with a line break.
std::string advice_text(const Evidence& evidence);
// For programs: an array of classes.
std::string advice_json(const Evidence& evidence);

}  // namespace mq
