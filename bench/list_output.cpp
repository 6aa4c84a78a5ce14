#include "bench/list_output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "bench/models.hpp"
#include "bench/mpi_algorithm.hpp"
#include "bench/sparse_method.hpp"
#include "kernels/codec.hpp"
#include "kernels/memory.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "mpi_quant/policy/scheme.hpp"

namespace mq::bench {
namespace {

constexpr std::size_t kExample = std::size_t{1} << 20;  // elements

// One line for each parameter of a codec or of a memory rule.
std::string specs_text(std::span<const kernels::ParamSpec> specs) {
  std::string text;
  for (const kernels::ParamSpec& spec : specs) {
    if (spec.kind == kernels::ParamKind::word)
      text += fmt::format("  {:<12} {}={} [{}]: {}\n", "", spec.name,
                          spec.words[static_cast<std::size_t>(spec.preset)], fmt::join(spec.words, "|"),
                          spec.what);
    else
      text += fmt::format("  {:<12} {}={} [{} to {}]: {}\n", "", spec.name, spec.preset, spec.min, spec.max,
                          spec.what);
  }
  return text;
}

std::string codec_text(const kernels::Codec& codec) {
  const kernels::Params presets = kernels::preset_params(codec);
  const auto bound = codec.wire_bound(kExample, kernels::Element::f32, presets);
  const double bytes = static_cast<double>(bound) / static_cast<double>(kExample);
  return fmt::format("  {:<12} {:>7.4f} bytes/element, 1/{:<5.3g} {}{}\n", codec.name, bytes, 4.0 / bytes,
                     codec.what, codec.lossless ? " (lossless)" : "") +
         specs_text(codec.specs);
}

constexpr const char* kOnGpu =
    "\nVectors in the memory of a GPU (--memory cuda): mpi copies them to pinned host memory and back in its time;\n"
    "  mpi-direct gives MPI their addresses, if it says that it takes them; nccl is NCCL, one GPU a rank\n";

std::string algorithms_text() {
  if (mpi_algorithms().empty())
    return "\nmpi/ALGORITHM: this MPI library does not let its algorithm be chosen\n";
  std::string text = "\nmpi/ALGORITHM, one of (* is what 'mpi' uses now):";
  for (const std::string& name : mpi_algorithms())
    text += fmt::format(" {}{}", name, name == mpi_algorithm_in_force() ? "*" : "");
  return text +
         "\n  mpi/* stands for all but auto; where one cannot serve a call, MPI silently uses another\n";
}

}  // namespace

std::string list_text() {
  std::string text =
      "A method is 'mpi' (the MPI library's own reduction), mpi/ALGORITHM or codec(param=value,...)/plan "
      "memory=rule(param=value,...); parameters, plan and memory may be left out, and with --matrix {side} stands for a number. METHOD#2, #3 ...: "
      "the same once more, as a method of its own ('mpi,mpi#2': how far apart equal things come out).\n\n"
      "Codecs (at most so many bytes for each f32 element of 1 Mi, and the fraction of raw):\n";
  for (const kernels::Codec& codec : kernels::codecs()) text += codec_text(codec);
  text += "\nPlans:\n";
  for (const PlanRow& plan : plans()) text += fmt::format("  {:<12} {}\n", plan.name, plan.what);
  text += "\nMemory rules (what a rank keeps between calls with a key; carry if none is named):\n";
  for (const kernels::MemoryRule& rule : kernels::memory_rules())
    text += fmt::format("  {:<12} {} array{} a rank: {}\n", rule.name, rule.arrays,
                        rule.arrays == 1 ? "" : "s", rule.what) +
            specs_text(rule.specs);
  text +=
      "\nSchemes (several reductions a call; in place of a codec, for MPIQ_Allreduce with a matrix and a key, not here):\n";
  for (const Scheme& scheme : kSchemes)
    text += fmt::format("  {:<12} {}\n", scheme.name, scheme.what) + specs_text(scheme.specs);
  text += algorithms_text();
  text += kOnGpu;
  text += sparse_methods_text();
  text += "\nModels (layer sizes for --model):\n";
  for (const Model& model : models())
    text += fmt::format("  {:<12} {:>11} parameters: {}\n", model.name, model.published_total, model.source);
  return text;
}

}  // namespace mq::bench
