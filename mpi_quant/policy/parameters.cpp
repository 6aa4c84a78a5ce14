#include "mpi_quant/policy/parameters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "mpi_quant/policy/scheme.hpp"
#include "mpi_quant/policy/words.hpp"

namespace mq {

std::string describe(const kernels::ParamSpec& spec) {
  if (spec.kind == kernels::ParamKind::word)
    return std::string(spec.name) + ": " +
           joined(
               spec.words, [](auto w) { return w; }, "|");
  constexpr std::array<std::string_view, 3> kinds{"integer", "power of two", "number"};
  return std::string(spec.name) + ": " + std::string(kinds[static_cast<std::size_t>(spec.kind)]) + ", " +
         number(spec.min) + " to " + number(spec.max);
}

std::string known_params(std::string_view owner, std::span<const kernels::ParamSpec> specs) {
  if (specs.empty()) return std::string(owner) + " takes none";
  return "known: " + joined(specs, describe, "; ");
}

std::string known_methods() {
  const auto name_of = [](const auto& row) { return row.name; };
  return joined(kSchemes, name_of, ", ",
                joined(kernels::codecs(), name_of, ", ", std::string(kExact) + ", " + std::string(kAuto)));
}

std::optional<double> read_value(const kernels::ParamSpec& spec, std::string_view word) {
  if (spec.kind == kernels::ParamKind::word) {
    const auto at = std::find(spec.words.begin(), spec.words.end(), word);
    return at == spec.words.end() ? std::nullopt
                                  : std::optional(static_cast<double>(at - spec.words.begin()));
  }
  const char* const end = word.data() + word.size();
  double value = 0;
  if (spec.kind == kernels::ParamKind::real) {
    const auto [at, error] = std::from_chars(word.data(), end, value, std::chars_format::general);
    if (error != std::errc{} || at != end || !std::isfinite(value)) return std::nullopt;
  } else {
    std::int64_t integer = 0;
    const auto [at, error] = std::from_chars(word.data(), end, integer);
    if (error != std::errc{} || at != end) return std::nullopt;
    if (integer > kExactIntegers || integer < -kExactIntegers) return std::nullopt;
    if (spec.kind == kernels::ParamKind::power_of_two && (integer <= 0 || (integer & (integer - 1)) != 0))
      return std::nullopt;
    value = static_cast<double>(integer);
  }
  if (value < spec.min || value > spec.max) return std::nullopt;
  return value + 0.0;  // -0.0 to 0.0: equal parameters have equal bits
}

bool excludes(const kernels::ParamSpec& one, const kernels::ParamSpec& other, double value_of_other) {
  return !one.excludes.empty() && one.excludes == other.name &&
         (one.excluded_value < 0 || value_of_other == one.excluded_value);
}

std::string conflict_of_written(std::span<const kernels::ParamSpec> specs,
                                const std::array<bool, kernels::kMaxParams>& written,
                                const kernels::Params& params) {
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (std::size_t j = 0; j < specs.size(); ++j) {
      const kernels::ParamSpec &one = specs[i], &other = specs[j];
      if (!written[i] || !written[j] || !excludes(one, other, params.value[j])) continue;
      if (one.excluded_value < 0)
        return "give either " + std::string(other.name) + " or " + std::string(one.name);
      return std::string(one.name) + " has no effect beside " + std::string(other.name) + "=" +
             value_text(other, params.value[j]);
    }
  return {};
}

}  // namespace mq
