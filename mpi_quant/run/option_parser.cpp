#include "mpi_quant/run/option_parser.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <deque>
#include <sstream>
#include <utility>

#include "mpi_quant/base/spelling.hpp"

namespace mq {
namespace {

constexpr std::size_t kColumns = 100, kHelpColumn = 28;

std::string number_text(double number) {
  std::ostringstream out;
  out.precision(15);
  out << number;
  return out.str();
}

// A check of a number: ok says whether it may be, problem what is wrong otherwise.
Check number_check(std::function<bool(double)> ok, std::string problem) {
  return [ok = std::move(ok), problem = std::move(problem)](const std::string& word) -> std::string {
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) return "'" + word + "' is not a number";
    if (!std::isfinite(number)) return word + " is no number to work with";
    return ok(number) ? "" : word + " is " + problem;
  };
}

// The long name of an option, or the first where there is no long one: "--sizes" of "-s,--sizes".
std::string long_name(const std::string& flags) {
  const std::size_t at = flags.find("--") == std::string::npos ? 0 : flags.find("--");
  return flags.substr(at, flags.find(',', at) - at);
}

// What stands for the word of an option in the help, where its flags do not say it: N or X for a number, else
// the end of its name, such as "BYTES" of "-b,--min-bytes".
std::string word_name(const Option& option) {
  if (std::holds_alternative<int*>(option.value) || std::holds_alternative<std::uint64_t*>(option.value))
    return "N";
  if (std::holds_alternative<double*>(option.value)) return "X";
  std::string name = long_name(option.flags);
  name = name.substr(name.rfind('-') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.value); }

// Every number is read by the same rules: digits, a sign, a point, an exponent.
Check check_of(Option& option) {
  if (option.check) return std::move(option.check);
  if (std::holds_alternative<std::uint64_t*>(option.value) ||
      std::holds_alternative<std::vector<std::uint64_t>*>(option.value))
    return at_least_zero();
  const bool is_number = std::holds_alternative<int*>(option.value) ||
                         std::holds_alternative<double*>(option.value) ||
                         std::holds_alternative<std::vector<int>*>(option.value) ||
                         std::holds_alternative<std::vector<double>*>(option.value);
  return is_number ? number_check([](double) { return true; }, "") : nullptr;
}

// What a variable holds without the flag, "" if there is nothing to say of it.
std::string preset_of(const Option& option) {
  struct Show {
    std::string operator()(const bool*) const { return ""; }
    std::string operator()(const int* value) const { return *value <= 0 ? "" : std::to_string(*value); }
    std::string operator()(const std::uint64_t* value) const {
      return *value == 0 ? "" : std::to_string(*value);
    }
    std::string operator()(const double* value) const { return *value == 0 ? "" : number_text(*value); }
    std::string operator()(const std::string* value) const { return *value; }
    std::string operator()(const Option::Text& text) const { return text.preset; }
    std::string operator()(const void*) const { return ""; }  // lists
  };
  return std::visit(Show{}, option.value);
}

// Appends words in lines from column `from` on. The first line has `used` columns already.
void append_wrapped(std::string& out, const std::string& text, std::size_t from, std::size_t used) {
  std::istringstream words(text);
  bool first = true;
  for (std::string word; words >> word; first = false) {
    if (!first && used + 1 + word.size() > kColumns) {
      out += "\n" + std::string(from, ' ');
      used = from;
      first = true;
    }
    out += (first ? "" : " ") + word;
    used += word.size() + (first ? 0 : 1);
  }
  out += "\n";
}

// Paragraphs of a description. Lines that begin with blanks are examples and stay.
std::string paragraphs(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == ' ')
      out += line + "\n";
    else
      append_wrapped(out, line, 0, 0);
  }
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string left_column(const Option& option, const std::string& word) {
  std::string text = "  ";
  for (std::size_t at = 0; at < option.flags.size();) {
    const std::size_t end = std::min(option.flags.find(',', at), option.flags.size());
    std::string flag = option.flags.substr(at, end - at);
    if (flag[0] == '!') flag.erase(0, 1);
    text += (at == 0 ? "" : ", ") + flag;
    at = end + 1;
  }
  if (!is_flag(option) && option.flags[0] == '-')
    text += option.word_may_miss ? "[=" + word + "]" : " " + word;
  return text;
}

void append_option(std::string& out, const std::string& left, const std::string& help) {
  out += left;
  std::size_t used = left.size();
  if (used + 2 > kHelpColumn) {
    out += "\n";
    used = 0;
  }
  out += std::string(kHelpColumn - used, ' ');
  append_wrapped(out, help, kHelpColumn, kHelpColumn);
}

// ", but --methods is": the option that is most like a word which is none; "" if none is.
std::string like_option(const std::string& word, const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* const each : app.get_options())
    for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
  const std::string* const meant = meant_by(word, known);
  return meant == nullptr ? "" : ", but " + *meant + " is";
}

// What is wrong with the words that nothing takes: with the first option among them, because what follows it
// may be its value; else with the first of them, which may be meant as a command.
std::string unexpected(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  const auto option =
      std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with('-'); });
  if (option == words.end()) {
    std::vector<std::string> known;
    for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(command->get_name());
    const std::string* const meant = meant_by(words.front(), known);
    return "'" + words.front() + "' is not expected" + (meant == nullptr ? "" : ", but " + *meant + " is");
  }
  const std::string name = option->substr(0, option->find('='));
  for (const CLI::App* const command : app.get_subcommands())
    if (command->get_option_no_throw(name) != nullptr)
      return name + " is an option of " + command->get_name() + ", behind which it must stand";
  return name + " is no option" + like_option(name, app);
}

}  // namespace

Check above_zero() {
  return number_check([](double x) { return x > 0; }, "not above 0");
}
Check at_least_zero() {
  return number_check([](double x) { return x >= 0; }, "less than 0");
}
Check from_to(double least, double most) {
  return number_check([=](double x) { return least <= x && x <= most; },
                      "not within " + number_text(least) + " to " + number_text(most));
}
Check one_of(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& word) {
    const bool known = std::find(words.begin(), words.end(), word) != words.end();
    return known ? std::string() : "'" + word + "' is none of " + joined(words);
  };
}

struct OptionParser::Parts {
  struct Shown {
    std::string group, left, help;
  };
  CLI::App* app = nullptr;
  std::unique_ptr<CLI::App> own;  // of the program; commands belong to it
  std::string name, what, group = "Options";
  std::vector<Shown> shown;
  struct TextOption {
    std::string name, word;
    Option::Text text;
  };
  std::deque<TextOption> texts;
  std::vector<std::pair<std::string, std::unique_ptr<OptionParser>>> commands;
  std::vector<std::string> positionals, rest;
  bool takes_program = false;

  std::string help() const;
  CLI::Option* bind(Option& option);
};

std::string OptionParser::Parts::help() const {
  std::string out = "Usage: " + name + " [OPTIONS]";
  for (const std::string& word : positionals) out += " [" + word + "]";
  if (!commands.empty()) out += " COMMAND [OPTIONS]";
  if (takes_program) out += " PROGRAM [ARGUMENTS]";
  out += "\n\n" + paragraphs(what);
  if (!commands.empty()) out += "\nCommands, each with options of its own (" + name + " COMMAND --help):\n";
  for (const auto& [word, command] : commands) {
    const std::string& text = command->parts_->what;
    append_option(out, "  " + word, text.substr(0, text.find('\n')));
  }
  std::vector<Shown> all = shown;
  all.push_back({"Help", "  -h, --help", "print this text"});
  if (own) all.push_back({"Help", "  --version", "print the version"});
  std::vector<std::string> groups;
  for (const Shown& each : all)
    if (std::find(groups.begin(), groups.end(), each.group) == groups.end()) groups.push_back(each.group);
  for (const std::string& title : groups) {
    out += "\n" + title + ":\n";
    for (const Shown& each : all)
      if (each.group == title) append_option(out, each.left, each.help);
  }
  return out;
}

CLI::Option* OptionParser::Parts::bind(Option& option) {
  return std::visit(
      [&](auto& value) -> CLI::Option* {
        using V = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<V, bool*>) {
          return app->add_flag(option.flags, *value);
        } else if constexpr (std::is_same_v<V, Option::Text>) {
          texts.push_back({long_name(option.flags), value.preset, value});
          return app->add_option(option.flags, texts.back().word);
        } else {
          CLI::Option* const added = app->add_option(option.flags, *value);
          constexpr bool is_list =
              !std::is_arithmetic_v<std::remove_pointer_t<V>> && !std::is_same_v<V, std::string*>;
          if (is_list) added->delimiter(',');
          return added;
        }
      },
      option.value);
}

OptionParser::OptionParser(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  parts_->app->formatter_fn(
      [this](const CLI::App*, std::string, CLI::AppFormatMode) { return parts_->help(); });
  parts_->app->set_help_flag("-h,--help");
  parts_->app->failure_message([this](const CLI::App*, const CLI::Error& error) {
    const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const OptionParser* at = this;  // or the command that was chosen, unless the words stand before it
    for (const auto& [word, command] : parts_->commands)
      if (command->was_chosen() && !(is_extra && parts_->app->remaining_size() > 0)) at = command.get();
    return at->name() + ": " + (is_extra ? unexpected(*at->parts_->app) : error.what()) + "; see " +
           at->name() + " --help\n";
  });
}

OptionParser::OptionParser(std::string name, std::string what)
    : OptionParser([&] {
        auto parts = std::make_unique<Parts>();
        parts->own = std::make_unique<CLI::App>("", name);
        parts->app = parts->own.get();
        parts->name = std::move(name);
        parts->what = std::move(what);
        return parts;
      }()) {}

OptionParser::~OptionParser() = default;

void OptionParser::group(std::string title) { parts_->group = std::move(title); }

void OptionParser::add(Option option) {
  Parts& p = *parts_;
  const std::size_t at = std::min(option.flags.find('='), option.flags.size());
  const std::string word = at < option.flags.size() ? option.flags.substr(at + 1) : word_name(option);
  option.flags.resize(at);
  const std::string preset = preset_of(option);
  std::string help = option.help;
  CLI::Option* const added = p.bind(option);
  std::vector<std::string> excluded;
  for (const std::string& other : option.needs) added->needs(p.app->get_option(other));
  for (const std::string& other : option.excludes)
    if (CLI::Option* const known = p.app->get_option_no_throw(other)) {
      added->excludes(known);
      excluded.push_back(other);
    }
  if (Check check = check_of(option)) added->check(CLI::Validator(std::move(check), ""));
  if (option.environment != nullptr) added->envname(option.environment);
  if (option.required) added->required();
  if (option.word_may_miss) added->expected(0, 1);
  if (!excluded.empty()) help += (help.empty() ? "not with " : "; not with ") + joined(excluded);
  if (option.environment != nullptr) help += " (" + std::string(option.environment) + ")";
  if (!preset.empty()) help += " [" + preset + "]";
  if (option.flags[0] != '-') p.positionals.push_back(option.flags);
  p.shown.push_back({p.group, left_column(option, word), std::move(help)});
}

OptionParser& OptionParser::command(std::string name, std::string what) {
  auto parts = std::make_unique<Parts>();
  parts->app = parts_->app->add_subcommand(name, "")->configurable();
  parts->name = parts_->name + " " + name;
  parts->what = std::move(what);
  auto parser = std::unique_ptr<OptionParser>(new OptionParser(std::move(parts)));
  return *parts_->commands.emplace_back(std::move(name), std::move(parser)).second;
}

void OptionParser::take_program() {
  parts_->takes_program = true;
  parts_->app->prefix_command();
}

void OptionParser::leave_others() { parts_->app->allow_extras(); }

Parsed OptionParser::parse(int argc, const char* const* argv, const std::string& version) {
  Parsed parsed;
  CLI::App& app = *parts_->app;
  app.set_version_flag("--version", version);
  if (!parts_->commands.empty()) app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    parts_->rest = app.remaining();
    parsed.run = true;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    parsed.is_usage_error = app.exit(error, out, err) != 0;
    parsed.out = out.str();
    parsed.err = err.str();
  }
  return parsed;
}

Status OptionParser::read() const {
  for (const Parts::TextOption& each : parts_->texts) {
    if (each.word.empty() && each.text.preset.empty()) continue;
    if (const Status s = each.text.read(each.word); !s.ok()) return {s.code(), each.name + ": " + s.text()};
  }
  return {};
}

const std::string& OptionParser::name() const { return parts_->name; }
bool OptionParser::was_given(const std::string& flag) const { return parts_->app->count(flag) > 0; }
bool OptionParser::was_chosen() const { return parts_->app->parsed(); }
std::string OptionParser::like(const std::string& word) const { return like_option(word, *parts_->app); }
const std::vector<std::string>& OptionParser::rest() const { return parts_->rest; }
void OptionParser::describe(std::string left, std::string help) {
  parts_->shown.push_back({parts_->group, "  " + std::move(left), std::move(help)});
}
CLI::App& OptionParser::app() { return *parts_->app; }

}  // namespace mq
