// What the preload library did to a program: the merged records of all ranks, as a table for people and as
// JSON. Uses no MPI.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mpi_quant/automatic/chooser.hpp"
#include "mpi_quant/report/record.hpp"

namespace mq {

struct RunInfo {
  std::string mode;      // on, explain or advise
  std::string policy;    // as the library understood it; "": none
  std::string version;   // of this library
  std::string mpi;       // first line of the MPI library's version
  std::string command;   // of rank 0
  double elapsed_s = 0;  // from the moment when the library first saw MPI until it stops
  int ranks = 0;
  // The reason why rank 0, which has a CUDA driver, does not know GPU memory, or runs no kernels there; "" if
  // there is nothing to report.
  std::string gpu = {};
  // What is wrong with the names of rank 0's environment variables: a sentence each.
  std::vector<std::string> mistyped = {};
  std::vector<ChoiceSummary> choices = {};  // of auto, on rank 0
};

// What else is known of one rank; 0 or "" where a value is not known.
struct RankInfo {
  std::uint64_t peak_rss_bytes = 0;                     // of the process
  std::uint64_t scratch_bytes = 0, residual_bytes = 0;  // of this library
  std::uint64_t unfinished_requests = 0;                // still open when MPI_Finalize was called
  UnknownCommands unknown_commands = {};
  std::array<char, 65> host{};  // its node, with a zero at the end
};

// A class or a call site, merged over the ranks that have calls of it.
struct Merged {
  int ranks = 0;
  // For each reason, the largest count of any rank. So a call of all ranks counts once.
  std::array<std::uint64_t, kReasons> calls{};
  Numbers sum;  // over these ranks; the largest errors are not added, the largest of them is kept
  // of the ranks' seconds; they are far apart if some ranks wait for others
  double seconds_min = 0, seconds_max = 0;

  std::uint64_t total_calls() const;
  std::uint64_t lossy_calls() const;
  double mean(double Numbers::*seconds) const { return ranks == 0 ? 0 : sum.*seconds / ranks; }
  double guard_error_mean() const;           // NaN if no call was guarded
  std::uint64_t feedback_calls(Fate) const;  // of all ranks
  void add(const Numbers& of_a_rank);
};

struct Report {
  RunInfo info;
  std::vector<RankInfo> rank_info;
  std::map<ClassId, Merged> classes;
  std::map<std::string, Merged> sites;

  std::array<std::uint64_t, kReasons> calls() const;  // of all classes
  std::uint64_t lossy_calls() const;                  // results delivered to the program that were lossy
  RankInfo largest() const;                           // each number may come from another rank
  std::uint64_t unfinished_requests() const;
  std::vector<std::string> nodes() const;  // where the ranks ran, each once, in the order of the ranks
  // of all ranks; the first text comes from the lowest rank that has one
  UnknownCommands unknown_commands() const;
};

// What goes wrong with the feedback of a class, and what to do about it. Each is a sentence; both are "" if
// nothing goes wrong.
struct Warning {
  std::string what, remedy;
};
Warning feedback_warning(const Merged&);

// Explains the words of the feedback columns that occur in these classes, one per line; "" if there are none.
std::string feedback_legend(const Report&);

// The records of the ranks may come in any order.
Report merge(RunInfo info, const std::vector<Record>& records, std::vector<RankInfo> rank_info);

// Lines about what a program did wrong; "" if there is nothing to report.
std::string wrongs_text(const Report&);

// For people. The last line says how many results were lossy.
std::string to_table(const Report&);

// Schema mpi_quant-report-1. advice, suggestion: JSON for the members of these names; "": leave the member
// out.
std::string to_json(const Report&, const std::string& advice = "", const std::string& suggestion = "");

}  // namespace mq
