// The command lines of the programs: a list of options, each with its flag, the variable it sets and its
// help. CLI11 reads them; its header takes five seconds to compile, so option_parser.cpp alone includes it.
// The help is ours: options in groups, lines of at most 100 columns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace CLI {
class App;
}

namespace mq {

// What a word may be: returns what is wrong with it, "" if nothing is.
using Check = std::function<std::string(const std::string& word)>;
Check above_zero();
Check at_least_zero();
Check from_to(double least, double most);
Check one_of(std::vector<std::string> words);

struct Option {
  // A text with a grammar of its own. `preset` is what it is without the flag. An empty preset is not read.
  struct Text {
    std::string preset;
    std::function<Status(const std::string& text)> read;
  };
  // A vector takes numbers with commas between them.
  using Target = std::variant<bool*, int*, std::uint64_t*, double*, std::string*, std::vector<int>*,
                              std::vector<std::uint64_t>*, std::vector<double>*, Text>;

  // "-n,--iters"; "--shuffle,!--no-shuffle": both ways; "FILE": a word without a flag. "--mode=a|b": the help
  // shows a|b for the word of the option, else what word_name() in option_parser.cpp makes of the rest.
  std::string flags;
  Target value;
  std::string help;
  Check check = nullptr;                // of each number or word
  std::vector<std::string> needs{};     // flags of options before this one
  std::vector<std::string> excludes{};  // the same; flags that this command lacks are ignored
  const char* environment = nullptr;    // the variable that is read without the flag
  bool required = false;
  bool word_may_miss = false;  // the flag alone is allowed, and sets an empty text
};

// What to do after a command line was parsed: go on if `run`, else print the texts and exit with the code.
struct Parsed {
  bool run = false;
  bool is_usage_error = false;
  std::string out, err;
};

class OptionParser {
 public:
  // name: the program's name, which errors and the help show. what: a description for the help. Its
  // paragraphs are wrapped; lines that begin with blanks, such as examples, are printed as they are.
  OptionParser(std::string name, std::string what);
  OptionParser(const OptionParser&) = delete;
  OptionParser& operator=(const OptionParser&) = delete;
  ~OptionParser();

  // The options that follow are listed under this title.
  void group(std::string title);
  // Variables must live until parse() has returned, or read() if the option is a Text.
  void add(Option option);
  // A subcommand, whose options may stand in a section of this name in a file, too.
  OptionParser& command(std::string name, std::string what);
  // What follows the options belongs to another program: rest().
  void take_program();
  // Words that are no options here belong to another parser: rest().
  void leave_others();

  // Reads the words, not yet the texts. Does not print or exit. version: what --version prints.
  Parsed parse(int argc, const char* const* argv, const std::string& version);
  // Reads the texts in the order in which they were added. An error begins with the flag.
  Status read() const;

  const std::string& name() const;
  // ", but --methods is" of "--method", which is no option; "" if no option is like the word.
  std::string like(const std::string& word) const;

  // After parse(). was_given: on the command line or in a file. Of a command: whether it was chosen.
  bool was_given(const std::string& flag) const;
  bool was_chosen() const;
  const std::vector<std::string>& rest() const;
  // Gives access to CLI11, for settings that this class has no function for.
  CLI::App& app();
  // Adds a line to the help, for an option that was added to app().
  void describe(std::string left, std::string help);

 private:
  struct Parts;
  OptionParser(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace mq
