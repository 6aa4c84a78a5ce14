// Parses the command line of a program of the benchmark.
#pragma once

#include <fmt/format.h>

#include <string>

#include "bench/build_info.hpp"
#include "bench/options.hpp"
#include "mpi_quant/run/option_parser.hpp"

namespace mq::bench {

// Reads the words, not yet the texts (OptionParser). Returns false if the program must print line's texts and
// exit with its code: after --help, --version, or an error. `Line` is any struct with exit_code, out and err.
template <class Line>
bool parse_words(OptionParser& parser, int argc, const char* const* argv, Line& line) {
  Parsed parsed = parser.parse(
      argc, argv, fmt::format("{} {} {}", parser.name(), build_info().version, build_info().git_commit));
  if (parsed.run) return true;
  line.exit_code = parsed.is_usage_error ? kUsage : kDone;
  line.out = std::move(parsed.out);
  line.err = std::move(parsed.err);
  return false;
}

// What stops a program before it runs: an option that cannot be meant.
template <class Line>
bool refuse(const OptionParser& parser, const Status& why, Line& line) {
  if (why.ok()) return true;
  line.exit_code = kUsage;
  line.err = fmt::format("{}: {}\n", parser.name(), why.text());
  return false;
}

// Words and texts.
template <class Line>
bool parse(OptionParser& parser, int argc, const char* const* argv, Line& line) {
  return parse_words(parser, argc, argv, line) && refuse(parser, parser.read(), line);
}

}  // namespace mq::bench
