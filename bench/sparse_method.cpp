#include "bench/sparse_method.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sparse_allreduce/butterfly.hpp"

namespace mq::bench {
namespace {

using Kind = SparseMethod::Kind;
constexpr std::array<std::pair<std::string_view, Kind>, 4> kKinds{{{"densify", Kind::densify},
                                                                   {"union", Kind::make_union},
                                                                   {"kylix", Kind::kylix},
                                                                   {"fused", Kind::fused}}};
// Values of the library's info key mpiq_algorithm.
constexpr std::array<std::string_view, 5> kAlgorithms{"auto", "allgather", "split", "recursive_doubling",
                                                      "dense"};

Status bad(std::string_view word, std::string_view why) {
  return {Code::bad_argument, fmt::format("'{}': {}", word, why)};
}

// The parts of name(parameter)/form.
struct Parts {
  std::string_view name, parameter, form;
};

Result<Parts> split(std::string_view word) {
  Parts parts;
  const std::size_t slash = word.find('/');
  if (slash != std::string_view::npos) {
    parts.form = word.substr(slash + 1);
    if (parts.form.empty()) return bad(word, "nothing behind the '/'");
  }
  std::string_view front = word.substr(0, slash);
  const std::size_t open = front.find('(');
  parts.name = front.substr(0, open);
  if (open == std::string_view::npos) return parts;
  if (!front.ends_with(')')) return bad(word, "'(' without ')'");
  parts.parameter = front.substr(open + 1, front.size() - open - 2);
  if (parts.parameter.find('=') == std::string_view::npos) return bad(word, "a parameter is name=value");
  return parts;
}

Status take_algorithm(std::string_view word, const Parts& parts, SparseMethod& method) {
  if (!parts.form.empty() && parts.form != "dense")
    return bad(word, "of results there are lists and union/dense");
  method.dense_result = !parts.form.empty();
  if (parts.parameter.empty()) return {};
  constexpr std::string_view kName = "algorithm=";
  if (!parts.parameter.starts_with(kName)) return bad(word, "the only parameter of union is algorithm");
  const std::string_view value = parts.parameter.substr(kName.size());
  if (std::find(kAlgorithms.begin(), kAlgorithms.end(), value) == kAlgorithms.end())
    return bad(word, fmt::format("algorithm is one of {}", fmt::join(kAlgorithms, ", ")));
  if (value != kAlgorithms.front()) method.algorithm = value;
  return {};
}

Status take_degrees(std::string_view word, const Parts& parts, SparseMethod& method) {
  constexpr std::string_view kName = "degrees=";
  std::string_view value = parts.form;
  if (!parts.parameter.empty()) {
    if (!parts.form.empty()) return bad(word, "degrees stand in parentheses or behind the '/', not both");
    if (!parts.parameter.starts_with(kName))
      return bad(word, fmt::format("the only parameter of {} is degrees", parts.name));
    value = parts.parameter.substr(kName.size());
    if (value.empty()) return bad(word, "no degrees behind the '='");
  }
  if (value.empty()) return {};
  auto degrees = parse_degrees(value);
  if (!degrees.ok()) return degrees.status();
  method.degrees = fmt::format("{}", fmt::join(*degrees, "x"));
  return {};
}

}  // namespace

std::string name(Kind kind) {
  for (const auto& [text, value] : kKinds)
    if (value == kind) return std::string(text);
  return "?";
}

bool names_sparse_method(std::string_view word) {
  const std::string_view front = word.substr(0, word.find_first_of("(/"));
  return std::any_of(kKinds.begin(), kKinds.end(), [&](const auto& kind) { return kind.first == front; });
}

Result<std::vector<int>> parse_degrees(std::string_view text) {
  std::vector<int> degrees;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    int degree = 0;
    const auto [last, error] = std::from_chars(text.data() + begin, text.data() + end, degree);
    if (error != std::errc{} || last != text.data() + end || degree < 1)
      return bad(text, "degrees are numbers joined by x, such as 8x4x2");
    degrees.push_back(degree);
    begin = end + 1;
  }
  return degrees;
}

Status check_degrees(std::string_view text, int ranks) {
  auto degrees = parse_degrees(text);
  if (!degrees.ok()) return degrees.status();
  return sparse::check_degrees(*degrees, ranks);
}

Result<SparseMethod> parse_sparse_method(std::string_view word) {
  auto parts = split(word);
  if (!parts.ok()) return parts.status();
  SparseMethod method;
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const auto& known) { return known.first == parts->name; });
  if (kind == kKinds.end()) return bad(word, "no method for sparse vectors");
  method.kind = kind->second;
  if (method.kind == Kind::make_union) {
    if (const Status s = take_algorithm(word, *parts, method); !s.ok()) return s;
  } else if (method.butterfly()) {
    if (const Status s = take_degrees(word, *parts, method); !s.ok()) return s;
  } else if (!parts->parameter.empty() || !parts->form.empty()) {
    return bad(word, "densify takes no parameter");
  }
  return method;
}

std::string to_string(const SparseMethod& method) {
  std::string text = name(method.kind);
  if (!method.algorithm.empty()) text += fmt::format("(algorithm={})", method.algorithm);
  if (!method.degrees.empty()) text += fmt::format("(degrees={})", method.degrees);
  if (method.dense_result) text += "/dense";
  return text;
}

std::string sparse_methods_text() {
  return fmt::format(
      "\nMethods of 'mpiq-bench sparse' (any other method reduces the dense vector, which is given to it):\n"
      "  {:<12} scatter the list into zeros, MPI_Allreduce of the vector\n"
      "  {:<12} MPIQ_Sparse_allreduce_union, the result is a list; union/dense: the vector\n"
      "  {:<12} algorithm={}\n"
      "  {:<12} MPIQ_Sparse_allreduce_init once, each call sends values only\n"
      "  {:<12} degrees=8x4x2 [chosen by the library]: of the layers; also written kylix/8x4x2\n"
      "  {:<12} MPIQ_Sparse_allreduce, with degrees= as for kylix\n",
      "densify", "union", "", fmt::join(kAlgorithms, "|"), "kylix", "", "fused");
}

}  // namespace mq::bench
