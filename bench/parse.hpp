// Parses a command line. The outcome is either the options of a run, or texts that are printed in place of a
// run. `Line` is any struct with exit_code, out and err.
#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "bench/build_info.hpp"
#include "bench/options.hpp"

namespace mq::bench {

// Returns false if the program must print line's texts and exit with its code: after --help, --version, or an
// error.
template <class Line>
bool parse(CLI::App& app, int argc, const char* const* argv, Line& line) {
  app.set_version_flag(
      "--version", fmt::format("{} {} {}", app.get_name(), build_info().version, build_info().git_commit));
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    line.exit_code = app.exit(e, out, err) != 0 ? kUsage : kDone;
    line.out = out.str();
    line.err = err.str();
    return false;
  }
}

}  // namespace mq::bench
