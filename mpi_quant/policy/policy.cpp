// What a policy decides, and how it is printed.

#include "mpi_quant/policy/policy.hpp"

#include <algorithm>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/plan/rows.hpp"
#include "mpi_quant/policy/parameters.hpp"
#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

// True if a name matches a pattern, in which * stands for any text and ? for one character.
bool matches_glob(std::string_view name, std::string_view glob) {
  std::size_t n = 0, g = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

// "64K-1M @4 f32 calls=20-"; "" matches everything.
std::string print_selectors(const Rule& rule) {
  std::string out;
  const auto add = [&](const std::string& selector) { out.append(out.empty() ? "" : " ").append(selector); };
  if (rule.collective != Collective::allreduce) add(std::string(name(rule.collective)));
  if (rule.bytes_min != 0 || rule.bytes_end != kNoEnd) add(size_range_text(rule.bytes_min, rule.bytes_end));
  if (rule.ranks_min != 1 || rule.ranks_max != kNoMax)
    add("@" + rank_range_text(rule.ranks_min, rule.ranks_max));
  if (rule.element >= 0) add(std::string(kernels::name(static_cast<kernels::Element>(rule.element))));
  if (rule.calls_min != 0 || rule.calls_end != kNoEnd)
    add("calls=" + size_range_text(rule.calls_min, rule.calls_end));
  if (!rule.comm.empty()) add("comm=" + rule.comm);
  if (!rule.site.empty()) add("site=" + rule.site);
  if (rule.small) add("small");
  return out;
}

// " feedback=address guard=64 error=0.05": only what differs from the preset.
std::string print_safeguards(const Safeguards& safeguards, const Method& method) {
  std::string out;
  if (safeguards.feedback != usual_identity(method))
    out.append(" feedback=").append(name(safeguards.feedback));
  if (safeguards.guard != 0) out += " guard=" + size_text(safeguards.guard);
  if (safeguards.error != 0) out += " error=" + number(safeguards.error);
  return out;
}

// "block=512,bits=4": the parameters for which wanted(position) is true.
template <class Wanted>
std::string print_params(std::span<const kernels::ParamSpec> specs, const kernels::Params& params,
                         Wanted wanted) {
  std::string out;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (wanted(i))
      out.append(out.empty() ? "" : ",")
          .append(specs[i].name)
          .append("=")
          .append(value_text(specs[i], params.value[i]));
  return out;
}

// Every parameter that may be written. Of two that exclude each other, the one that has its preset is left
// out.
template <class Row>
std::string print_all(const Row& row, const kernels::Params& params) {
  const kernels::Params preset = preset_params(row);
  std::array<bool, kernels::kMaxParams> written;
  written.fill(true);
  for (std::size_t i = 0; i < row.specs.size(); ++i)
    for (std::size_t j = 0; j < row.specs.size(); ++j)
      if (excludes(row.specs[i], row.specs[j], params.value[j]))
        written[params.value[i] == preset.value[i] ? i : j] = false;
  return print_params(row.specs, params, [&](std::size_t i) { return written[i]; });
}

// "onebit(block=512)": the name of a codec or of a memory rule, and the parameters that differ from the
// preset.
template <class Row>
std::string print_row(const Row& row, const kernels::Params& params) {
  const kernels::Params preset = preset_params(row);
  const std::string differing =
      print_params(row.specs, params, [&](std::size_t i) { return params.value[i] != preset.value[i]; });
  return std::string(row.name) + (differing.empty() ? "" : "(" + differing + ")");
}

// "auto(error=0.01)"
std::string print_automatic(const Automatic& limit) {
  std::string out;
  if (limit.kind == Automatic::Kind::relative && limit.value > 0) out = number(limit.value);
  if (limit.kind == Automatic::Kind::absolute) out = std::string(kAbsolute) + number(limit.value);
  if (limit.kind == Automatic::Kind::feedback)
    out = std::string(kFeedback) + (limit.value == kUsualDebt ? "" : ":" + number(limit.value));
  return std::string(kAuto) + (out.empty() ? "" : "(error=" + out + ")");
}

}  // namespace

std::string unfit_for(Collective collective, const Method& method) {
  if (collective == Collective::allreduce || method.exact()) return {};
  const std::string owner(name(collective));
  if (method.automatic.kind == Automatic::Kind::feedback && !adds(collective))
    return "auto(error=feedback) serves sums: no later " + owner + " delivers what this one leaves out";
  if (method.chooses()) return {};
  if (method.scheme != nullptr) return std::string(method.scheme->name) + " serves allreduce only";
  if (method.plan != nullptr) return owner + " has a plan of its own, and takes no other";
  const kernels::MemoryRule& rule = method.memory_rule();
  if (rule.mirrors && adds(collective))
    return "memory=" + std::string(rule.name) + " serves allreduce, allgather and bcast only";
  if (rule.ops != nullptr && !rule.mirrors)
    return "memory=" + std::string(rule.name) + " serves allreduce only";
  return {};
}

std::string to_string(const Method& method) {
  if (method.exact()) return std::string(kExact);
  if (method.chooses()) return print_automatic(method.automatic);
  std::string out = method.scheme != nullptr ? print_row(*method.scheme, method.scheme_params)
                                             : print_row(*method.codec, method.params);
  if (method.plan != nullptr) out.append("/").append(method.plan->name);
  if (method.memory != nullptr)
    out.append(" ").append(kMemory).append("=").append(print_row(*method.memory, method.memory_params));
  return out;
}

std::string action_text(const Rule& rule) {
  std::string out = to_string(rule.method) + print_safeguards(rule.safeguards, rule.method);
  if (rule.seed) out += " seed=" + std::to_string(*rule.seed);
  return out;
}

std::string params_to_string(const Method& method) {
  if (method.codec == nullptr) return {};
  return method.scheme != nullptr ? print_all(*method.scheme, method.scheme_params)
                                  : print_all(*method.codec, method.params);
}

std::string_view name(Identity identity) { return kIdentities[static_cast<std::size_t>(identity)]; }

bool Rule::may_match(const CallKey& call) const {
  if (call.intercepted && call.bytes < (small ? kSmallFloorBytes : kFloorBytes)) return false;
  return call.collective == collective && call.bytes >= bytes_min && call.bytes < bytes_end &&
         call.ranks >= ranks_min && call.ranks <= ranks_max &&
         (element < 0 || element == static_cast<int>(call.element)) && call.number >= calls_min &&
         call.number < calls_end && (comm.empty() || matches_glob(call.comm, comm));
}

bool Rule::matches(const CallKey& call) const {
  return may_match(call) && (site.empty() || (!call.site.empty() && matches_glob(call.site, site)));
}

const Rule* Policy::rule_for(const CallKey& call) const {
  const auto rule =
      std::find_if(rules_.rbegin(), rules_.rend(), [&](const Rule& r) { return r.matches(call); });
  return rule == rules_.rend() ? nullptr : &*rule;
}

Method Policy::choose(const CallKey& call) const {
  const Rule* const rule = rule_for(call);
  return rule == nullptr ? Method{} : rule->method;
}

Policy::Prospect Policy::prospect(const CallKey& call) const {
  Prospect found;
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (!rule->may_match(call)) continue;
    found.may_compress = found.may_compress || !rule->method.exact();
    if (rule->site.empty()) break;
    found.by_site = true;
  }
  return found;
}

std::uint64_t Policy::floor_bytes() const {
  const bool small = std::any_of(rules_.begin(), rules_.end(), [](const Rule& r) { return r.small; });
  return small ? kSmallFloorBytes : kFloorBytes;
}

bool Policy::always_exact() const {
  return std::all_of(rules_.begin(), rules_.end(), [](const Rule& r) { return r.method.exact(); });
}

bool Policy::names(Collective collective) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& r) { return r.collective == collective; });
}

bool Policy::chooses() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& r) { return r.method.chooses(); });
}

bool Policy::by_nodes() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& r) {
    return r.method.chooses() || (r.method.plan != nullptr && r.method.plan->make == make_hierarchical);
  });
}

std::string Policy::to_string() const {
  return joined(
      rules_, [](const Rule& r) { return print_selectors(r) + ": " + action_text(r); }, "; ");
}

Status explain(const Status& why, const std::string& file, std::string_view source) {
  if (file.empty()) return {why.code(), "MPIQ_POLICY: " + why.text()};
  const std::string where = std::string(source) + " \"" + file + "\"";
  const Result<std::vector<std::string>> lines = lines_of_rules(file);
  for (std::size_t i = 0; lines.ok() && i < lines->size(); ++i)
    if (const Status status = Policy::parse((*lines)[i]).status(); !status.ok())
      return {status.code(), where + ", line " + std::to_string(i + 1) + ": " + status.text()};
  return {why.code(), where + ": " + why.text()};
}

}  // namespace mq
