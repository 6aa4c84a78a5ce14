#include "mpi_quant/run/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

// The places where something begins or ends, ascending.
template <class Number>
using Cuts = std::set<Number>;

template <class Number, class F>
void for_each_range(const Cuts<Number>& cuts, const F& f) {
  for (auto at = cuts.begin(); std::next(at) != cuts.end(); ++at) f(*at, *std::next(at));
}

template <class Columns, class F>
void for_each_place(const Columns& columns, const F& f) {
  for (const std::string& comm : columns.comms)
    for (const std::string& site : columns.sites) f(comm, site);
}

// The table has no columns for properties that no rule selects by.
struct Columns {
  Cuts<std::uint64_t> bytes{0, kNoEnd}, calls{0, kNoEnd};
  Cuts<std::int64_t> ranks{2, std::int64_t{kNoMax} + 1};  // one rank never compresses
  std::set<std::string> comms{""}, sites{""};

  std::size_t width = 4;  // of the text after a rule's colon; "bf16" has 4 characters

  explicit Columns(const Policy& policy) {
    for (const Rule& rule : policy.rules()) {
      bytes.insert({rule.bytes_min, rule.bytes_end});
      calls.insert({rule.calls_min, rule.calls_end});
      for (const std::int64_t cut : {std::int64_t{rule.ranks_min}, std::int64_t{rule.ranks_max} + 1})
        if (cut > 2) ranks.insert(cut);
      comms.insert(rule.comm);
      sites.insert(rule.site);
      width = std::max(width, action_text(rule).size());
    }
  }
  bool has_calls() const { return calls.size() > 2; }
  bool has_comms() const { return comms.size() > 1; }
  bool has_sites() const { return sites.size() > 1; }
};

std::string row(const Columns& columns, const std::array<std::string, 5>& selectors,
                const std::vector<std::string>& methods) {
  std::string out = fmt::format("{:<16} {:<10}", selectors[0], selectors[1]);
  if (columns.has_calls()) out += fmt::format(" {:<12}", selectors[2]);
  if (columns.has_comms()) out += fmt::format(" {:<16}", selectors[3]);
  if (columns.has_sites()) out += fmt::format(" {:<16}", selectors[4]);
  for (const std::string& method : methods) out += fmt::format(" {:<{}}", method, columns.width);
  return out.erase(out.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string decision_table(const Policy& policy) {
  const Columns columns(policy);
  std::string out = "policy: " + (policy.rules().empty() ? "no rules" : policy.to_string()) + "\n\n";
  std::vector<std::string> names;
  for (const kernels::Element e : kernels::kElements) names.emplace_back(kernels::name(e));
  out += row(columns, {"bytes", "ranks", "calls", "communicator", "call site"}, names);
  const auto action = [&](const CallKey& call) {
    const Rule* const rule = policy.rule_for(call);
    return rule == nullptr ? to_string(Method{}) : action_text(*rule);
  };
  for_each_place(columns, [&](const std::string& comm, const std::string& site) {
    for_each_range(columns.bytes, [&](std::uint64_t bytes, std::uint64_t bytes_end) {
      for_each_range(columns.ranks, [&](std::int64_t ranks, std::int64_t ranks_end) {
        for_each_range(columns.calls, [&](std::uint64_t call, std::uint64_t calls_end) {
          std::vector<std::string> actions;
          for (const kernels::Element e : kernels::kElements)
            actions.push_back(action({bytes, static_cast<int>(ranks), e, call, comm, false, site}));
          out += row(columns,
                     {size_range_text(bytes, bytes_end),
                      rank_range_text(static_cast<int>(ranks), static_cast<int>(ranks_end - 1)),
                      size_range_text(call, calls_end), comm.empty() ? "any other" : comm,
                      site.empty() ? "any other" : site},
                     actions);
        });
      });
    });
  });
  out +=
      "\nUpper ends of bytes and calls are excluded. MPI_Allreduce of a program is MPI's below 64K (4K where a "
      "rule says\nsmall), on one rank, and for f16 and bf16 where MPI has no name for them; these rules then "
      "count for MPIQ_Allreduce alone.\n";
  if (columns.has_comms() || columns.has_sites())
    out +=
        "A row of a pattern is for names that match this pattern alone; else the last rule that matches wins.\n";
  return out;
}

}  // namespace mq
