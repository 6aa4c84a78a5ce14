// What the preload library did to a program: the records of all ranks, merged, as a table for people and as
// JSON. Knows no MPI.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mpi_quant/report/record.hpp"

namespace mq {

struct ReportFacts {
  std::string mode;      // on, explain or advise
  std::string policy;    // as the library understood it; "" for none
  std::string version;   // of this library
  std::string mpi;       // first line of the MPI library's version
  std::string command;   // of rank 0
  double elapsed_s = 0;  // from the library's first sight of MPI to its end
  int ranks = 0;
  // Why rank 0, which has a CUDA driver, does not know GPU memory, or runs no kernels there; "" if there is
  // nothing to say.
  std::string gpu = {};
};

// Memory of one rank; 0 for what is not known.
struct RankFacts {
  std::uint64_t peak_rss_bytes = 0;                     // of the process
  std::uint64_t scratch_bytes = 0, residual_bytes = 0;  // of this library
  std::uint64_t unfinished_requests = 0;                // that MPI_Finalize came before
  UnknownCommands unknown_commands = {};
};

// A class or a call site over the ranks that have calls of it.
struct Merged {
  int ranks = 0;
  // For each reason of the rank with most of them: a call of all ranks counts once.
  std::array<std::uint64_t, kReasons> calls{};
  Numbers sum;                              // over these ranks; of the largest errors the largest
  double seconds_min = 0, seconds_max = 0;  // of the ranks' seconds; far apart where some wait for others

  std::uint64_t total_calls() const;
  std::uint64_t lossy_calls() const;
  double mean(double Numbers::*seconds) const { return ranks == 0 ? 0 : sum.*seconds / ranks; }
  double guard_error_mean() const;           // NaN if no call was guarded
  std::uint64_t feedback_calls(Fate) const;  // of all ranks
  void add(const Numbers& of_a_rank);
};

struct Report {
  ReportFacts facts;
  std::vector<RankFacts> rank_facts;
  std::map<ClassId, Merged> classes;
  std::map<std::string, Merged> sites;

  std::array<std::uint64_t, kReasons> calls() const;  // of all classes
  std::uint64_t lossy_calls() const;                  // results delivered to the program that were lossy
  RankFacts largest() const;                          // each of another rank, maybe
  std::uint64_t unfinished_requests() const;
  UnknownCommands unknown_commands() const;  // of all ranks; the first of the lowest that has one
};

// What goes wrong with the feedback of a class, and what to do about it: a sentence each, "" if nothing does.
struct Warning {
  std::string what, remedy;
};
Warning feedback_warning(const Merged&);

// The words of the columns for feedback that occur in these classes, a line each; "" if none does.
std::string feedback_legend(const Report&);

// The records are those of the ranks, in any order.
Report merge(ReportFacts facts, const std::vector<Record>& records, std::vector<RankFacts> rank_facts);

// Lines on what a program did wrong, "" for nothing.
std::string wrongs_text(const Report&);

// For people. The last line says how many results were lossy.
std::string to_table(const Report&);

// Schema mpi_quant-report-1. advice, suggestion: JSON for members of these names; "" for none.
std::string to_json(const Report&, const std::string& advice = "", const std::string& suggestion = "");

}  // namespace mq
