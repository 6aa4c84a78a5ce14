#include "bench/parse_lists.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "bench/mpi_algorithm.hpp"

namespace mq::bench {
namespace {

Status bad(std::string text) { return {Code::bad_argument, std::move(text)}; }

// Parses every word of a list with one parser, and stops at the first that fails.
template <class T, class Parse>
Result<std::vector<T>> parse_each(std::string_view text, const Parse& parse) {
  auto words = split_list(text);
  if (!words.ok()) return words.status();
  std::vector<T> values;
  for (const std::string& word : *words) {
    Result<T> value = parse(word);
    if (!value.ok()) return value.status();
    values.push_back(std::move(*value));
  }
  return values;
}

constexpr std::string_view kMpiAlgorithm = "mpi/", kAllDense = "mpi/*", kSide = "{side}",
                           kDirect = "mpi-direct", kNccl = "nccl";
constexpr char kAgain = '#';  // before the number of a method that is listed again

MethodWord dense(const std::string& algorithm) {
  return {fmt::format("{}{}", kMpiAlgorithm, algorithm), {}, algorithm};
}

Result<MethodWord> parse_dense(const std::string& word) {
  const std::string name = word.substr(kMpiAlgorithm.size());
  const auto& known = mpi_algorithms();
  if (known.empty())
    return bad(fmt::format("'{}': this MPI library does not let its algorithm be chosen", word));
  if (std::find(known.begin(), known.end(), name) == known.end())
    return bad(fmt::format("'{}': this MPI library has no algorithm '{}'; known: {}", word, name,
                           fmt::join(known, ", ")));
  return dense(name);
}

Result<MethodWord> parse_plain(const std::string& word, MethodsFor use) {
  if (word == kDirect) return MethodWord{word, {}, "", {}, Dense::direct};
  if (word == kNccl) return MethodWord{word, {}, "", {}, Dense::nccl};
  auto method = parse_method(word);
  if (!method.ok()) return method.status();
  if (method->scheme != nullptr && use != MethodsFor::matrices)
    return bad(fmt::format("'{}': vectors here are no matrices, which {} needs", word, method->scheme->name));
  return MethodWord{mq::to_string(*method), *method, ""};
}

// "mpi#2" -> 2; 1 for a word without a number. The number is 2 or more and has no leading zeros, so that it
// can be written in one way only.
Result<int> number_of_variant(std::string_view word) {
  const std::size_t at = word.rfind(kAgain);
  if (at == std::string_view::npos) return 1;
  const std::string_view digits = word.substr(at + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (at == 0 || error != std::errc{} || end != digits.data() + digits.size() || number < 2 ||
      std::to_string(number) != digits)
    return bad(fmt::format("'{}': after '#' stands a number from 2 on", word));
  return number;
}

Result<MethodWord> parse_list_method(const std::string& word) {
  auto method = parse_sparse_method(word);
  if (!method.ok()) return method.status();
  return MethodWord{to_string(*method), {}, "", *method};
}

}  // namespace

Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text) {
  return parse_each<std::uint64_t>(text, [](const std::string& word) -> Result<std::uint64_t> {
    auto size = parse_size(word);
    if (!size.ok()) return bad(fmt::format("'{}': {}", word, size.status().text()));
    if (*size == 0) return bad("size 0 in a list of sizes");
    return size;
  });
}

namespace {

// Positive numbers, ascending, each once.
Result<std::vector<int>> parse_numbers(std::string_view text, const char* what) {
  auto numbers = parse_each<int>(text, [what](const std::string& word) -> Result<int> {
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || value < 1)
      return bad(fmt::format("'{}' is not {}", word, what));
    return value;
  });
  if (!numbers.ok()) return numbers;
  std::sort(numbers->begin(), numbers->end());
  numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
  return numbers;
}

}  // namespace

Result<std::vector<int>> parse_ranks(std::string_view text) {
  return parse_numbers(text, "a number of ranks");
}

Result<std::vector<int>> parse_percents(std::string_view text) {
  return parse_numbers(text, "a percentage from 1 on");
}

Result<std::vector<double>> parse_densities(std::string_view text) {
  return parse_each<double>(text, [](const std::string& word) -> Result<double> {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || !(value > 0 && value <= 1))
      return bad(fmt::format("'{}' is not a density in (0, 1]", word));
    return value;
  });
}

Result<std::vector<kernels::Element>> parse_elements(std::string_view text) {
  auto elements = parse_each<kernels::Element>(text, [](const std::string& word) -> Result<kernels::Element> {
    for (const kernels::Element e : kernels::kElements)
      if (word == name(e)) return e;
    return bad(fmt::format("unknown element type '{}'; known: f32, f64, f16, bf16", word));
  });
  if (!elements.ok()) return elements;
  std::sort(elements->begin(), elements->end());
  elements->erase(std::unique(elements->begin(), elements->end()), elements->end());
  return elements;
}

Result<std::vector<MethodWord>> parse_methods(std::string_view text, MethodsFor use) {
  auto words = split_list(text);
  if (!words.ok()) return words.status();
  std::vector<MethodWord> methods;
  for (const std::string& listed : *words) {
    const auto number = number_of_variant(listed);
    if (!number.ok()) return number.status();
    const std::string word = *number == 1 ? listed : listed.substr(0, listed.rfind(kAgain));
    if (word == kAllDense && *number > 1) return bad(fmt::format("'{}': '#' is for one method", listed));
    if (word == kAllDense) {
      for (const std::string& name : mpi_algorithms())
        if (name != kAutomatic) methods.push_back(dense(name));
      continue;
    }
    if (use != MethodsFor::lists && names_sparse_method(word))
      return bad(fmt::format("'{}' is a method for sparse vectors, see 'mpiq-bench sparse'", word));
    auto method = names_sparse_method(word)               ? parse_list_method(word)
                  : word.starts_with(kMpiAlgorithm)       ? parse_dense(word)
                  : word.find(kSide) != std::string::npos ? Result<MethodWord>(MethodWord{word, {}, ""})
                                                          : parse_plain(word, use);
    if (!method.ok()) return method.status();
    if (*number > 1) method->text += fmt::format("{}{}", kAgain, *number);
    methods.push_back(std::move(*method));
  }
  for (std::size_t i = 0; i < methods.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (methods[i].text == methods[k].text)
        return bad(fmt::format("method '{}' is listed twice; to measure it twice, call the second '{}#2'",
                               methods[i].text, methods[i].plain_text()));
  return methods;
}

std::string MethodWord::plain_text() const { return text.substr(0, text.rfind(kAgain)); }

bool is_dense(const MethodWord& word) {
  return !word.sparse &&
         (word.method.exact() || (word.method.codec != nullptr && word.method.codec->name == "raw"));
}

Result<MethodWord> at_side(const MethodWord& word, std::uint64_t side) {
  if (word.text.find(kSide) == std::string::npos) return word;
  std::string text = word.plain_text();
  for (std::size_t at = text.find(kSide); at != std::string::npos; at = text.find(kSide)) {
    if (side == 0) return bad(fmt::format("'{}' is for matrices, see --matrix", word.text));
    text.replace(at, kSide.size(), std::to_string(side));
  }
  auto method = parse_method(text);
  if (!method.ok()) return method.status();
  if (method->scheme != nullptr) return bad(fmt::format("'{}': is no method of the benchmark", word.text));
  return MethodWord{word.text, *method, ""};
}

std::vector<std::uint64_t> size_range(std::uint64_t min_bytes, std::uint64_t max_bytes,
                                      std::uint64_t factor) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = min_bytes; size <= max_bytes; size *= factor) {
    sizes.push_back(size);
    if (size > max_bytes / factor) break;  // the product could overflow
  }
  return sizes;
}

std::string human_size(std::uint64_t bytes) {
  static constexpr std::array units{"", "K", "M", "G", "T"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", fmt::format("{:.4g}", value), units[unit]);
}

}  // namespace mq::bench
