// Parsing a command line to the end, or to the texts that are printed in place of a run. Of any struct with
// exit_code, out and err.
#pragma once

#include <CLI/CLI.hpp>

#include <istream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/options.hpp"

namespace mq::bench {

// Files of --config. CLI11 ends a value at '#' even inside quotes, where TOML does not and a method may have
// one.
class OptionsFile : public CLI::ConfigTOML {
 public:
  OptionsFile() { comment(kNoComment); }
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::stringstream bare;
    for (std::string line; std::getline(input, line);) bare << without_comment(line) << '\n';
    return CLI::ConfigTOML::from_config(bare);
  }

 private:
  static constexpr char kNoComment = '\1';  // comments are gone before CLI11 looks for them
  static std::string without_comment(const std::string& line) {
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (quote == 0 && c == '#') return line.substr(0, i);
      if (quote == 0 && (c == '"' || c == '\''))
        quote = c;
      else if (c == quote)
        quote = 0;
    }
    return line;
  }
};

// False if the program is to print line's texts and exit with its code: for --help, or an error.
template <class Line>
bool parse(CLI::App& app, int argc, const char* const* argv, Line& line) {
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
