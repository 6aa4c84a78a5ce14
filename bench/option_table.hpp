// The options of mpiq-bench as rows of one table (option_table.cpp). A row is the flag, the member, the key
// in the options that are stored with a result, and the help. The command line, sweep files and the stored
// text are made of it.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "bench/options.hpp"
#include "mpi_quant/run/option_parser.hpp"

namespace mq::bench {

// Subcommands. kLists: the lists of mpiq-simulate, as in `mpiq-bench sparse`.
enum Command : unsigned {
  kAllreduce = 1,
  kSparse = 2,
  kLink = 4,
  kLists = 8,
  kReduceScatter = 16,
  kAllgather = 32,
  kBcast = 64,
  kReduce = 128,
  kParted = kReduceScatter | kAllgather | kBcast | kReduce,
  kDense = kAllreduce | kParted,
  kVectors = kDense | kSparse,
  kAll = kVectors | kLink
};

// Of --feedback. Commands differ in what is preset.
inline constexpr const char* kFeedbackFlags = "--feedback,!--no-feedback";

struct OptionRow {
  // A text with a grammar of our own: what it is without the flag, and what reads it. An empty preset is not
  // read.
  struct Text {
    const char* preset;
    Status (*read)(const std::string& text, Options& into);
  };
  struct Flag {
    bool& (*at)(Options&);
  };
  template <class T>
  using At = T& (*)(Options&);
  using Json = std::string (*)(const Options&);

  unsigned commands;
  std::string flags;  // as in Option
  std::variant<Flag, At<int>, At<std::uint64_t>, At<double>, At<std::string>, Text> value;
  const char* key;  // "": no result depends on the option
  std::string help;
  Json json = nullptr;    // of a Text; others are stored as they are
  Check check = nullptr;  // of a number
  bool later = false;     // stored only if it is not preset, so that earlier files keep their text
  std::vector<std::string> excludes{};  // flags of rows above, where the command has them
  const char* environment = nullptr;    // the variable that is read without the flag
  std::string group{};                  // the title above the option in the help
};

std::span<const OptionRow> option_table();

// The options of one command, which set members of `options`, which must live as long as the parser.
void add_options(OptionParser& parser, Command command, Options& options);

}  // namespace mq::bench
