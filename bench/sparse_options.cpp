#include "bench/sparse_options.hpp"

#include <fmt/format.h>

#include "bench/parse_lists.hpp"

namespace mq::bench {
namespace {

Status usage(std::string_view option, const std::string& text) {
  return {Code::bad_argument, fmt::format("{}: {}", option, text)};
}

}  // namespace

void add_sparse_options(CLI::App& app, SparseWords& w) {
  app.add_option("--density", w.density, "fractions of the indices that a rank holds, in (0, 1]")
      ->capture_default_str();
  app.add_option("--distribution", w.distribution, "which indices: " + support_names())
      ->capture_default_str();
  app.add_option("--stride", w.stride, "elements at each index; sizes count them all")->capture_default_str();
  app.add_option("--in", w.in,
                 "what kylix and fused ask for: own, the rank's own indices; union, all that any rank holds, "
                 "which is what the other methods give")
      ->capture_default_str();
  app.add_option("--lists", w.lists,
                 "same: every call has the same indices; new: two lists in turn, so that kylix is configured "
                 "in every call and fused recognises none")
      ->capture_default_str();
}

Status take_sparse(const SparseWords& w, SparseOptions& o) {
  auto densities = parse_densities(w.density);
  if (!densities.ok()) return usage("--density", densities.status().text());
  o.densities = std::move(*densities);
  auto words = split_list(w.distribution);
  if (!words.ok()) return usage("--distribution", words.status().text());
  o.supports.clear();
  for (const std::string& word : *words) {
    auto support = parse_support(word);
    if (!support.ok()) return usage("--distribution", support.status().text());
    o.supports.push_back(*support);
  }
  auto strides = parse_sizes(w.stride);
  if (!strides.ok()) return usage("--stride", strides.status().text());
  o.strides = std::move(*strides);
  if (w.in != "own" && w.in != "union")
    return usage("--in", fmt::format("'{}' is neither own nor union", w.in));
  if (w.lists != "same" && w.lists != "new")
    return usage("--lists", fmt::format("'{}' is neither same nor new", w.lists));
  o.want_union = w.in == "union";
  o.fresh = w.lists == "new";
  return {};
}

}  // namespace mq::bench
