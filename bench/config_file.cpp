#include "bench/config_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <sstream>

namespace mq::bench {
namespace {

// Writes one line for each key, without comments, because of two limits of CLI11 2.1. It takes every # for
// the start of a comment, also the # in mpi#2. And it wants the first value of an array on the line of the
// bracket.
std::string flattened(std::istream& input) {
  std::string text;
  int depth = 0;  // of nested arrays
  for (std::string line; std::getline(input, line);) {
    char quote = 0;
    bool value = depth > 0;
    std::size_t i = 0;
    for (; i < line.size() && (quote != 0 || line[i] != '#'); ++i) {
      const char c = line[i];
      if (quote != 0)
        quote = c == quote ? char{0} : quote;
      else if (c == '"' || c == '\'')
        quote = c;
      else if (value && (c == '[' || c == ']'))
        depth += c == '[' ? 1 : -1;
      value = value || c == '=';
    }
    text.append(line, 0, i).append(depth > 0 ? " " : "\n");
  }
  return text;
}

class SweepFile : public CLI::ConfigTOML {
 public:
  SweepFile() { comment('\0'); }
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::istringstream text(flattened(input));
    std::vector<CLI::ConfigItem> found = CLI::ConfigTOML::from_config(text);
    std::erase_if(found, [](const CLI::ConfigItem& item) {
      return !item.parents.empty() && item.parents.front() == "launch";
    });
    // A list of ours is a single text with commas.
    for (CLI::ConfigItem& item : found)
      if (item.inputs.size() > 1) item.inputs = {fmt::format("{}", fmt::join(item.inputs, ","))};
    return found;
  }
};

}  // namespace

void add_config(OptionParser& parser) {
  CLI::App& app = parser.app();
  app.config_formatter(std::make_shared<SweepFile>());
  app.set_config("--config");
  parser.describe(
      "--config FILE",
      "options from a sweep file (TOML, a section with the name of the subcommand), see bench/sweeps; the command line "
      "overrides it");
  app.allow_config_extras(false);
}

}  // namespace mq::bench
