// Parameters of codecs and memory rules in the control language: their values, and the words of errors. Apart
// from the parser, which reads everything else.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/codec.hpp"

namespace mq {

// "block: power of two, 32 to 4096"; "format: auto|gap|u16"
std::string describe(const kernels::ParamSpec& spec);
// "known: " and a description of each; "OWNER takes none".
std::string known_params(std::string_view owner, std::span<const kernels::ParamSpec> specs);
// "mpi", codecs and schemes: the words that a method may begin with.
std::string known_methods();
// The value of a parameter: an integer for integer kinds, a finite number for real ones, the position of a
// word. Nothing if the text is not a value of the parameter.
std::optional<double> read_value(const kernels::ParamSpec& spec, std::string_view word);
// Whether `one` must not be written beside `other`, which has this value (ParamSpec::excludes).
bool excludes(const kernels::ParamSpec& one, const kernels::ParamSpec& other, double value_of_other);
// What is wrong with parameters that are written together (ParamSpec::excludes); "" if nothing is. What is
// written decides: a value that is the preset is no excuse.
std::string conflict_of_written(std::span<const kernels::ParamSpec> specs,
                                const std::array<bool, kernels::kMaxParams>& written,
                                const kernels::Params& params);

}  // namespace mq
