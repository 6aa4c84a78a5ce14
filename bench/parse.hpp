// Parsing a command line to the end, or to the texts that are printed in place of a run. Of any struct with
// exit_code, out and err.
#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "bench/build_info.hpp"
#include "bench/options.hpp"

namespace mq::bench {

// False if the program is to print line's texts and exit with its code: for --help, --version, or an error.
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
