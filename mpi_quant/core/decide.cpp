#include "mpi_quant/core/decide.hpp"

#include <mutex>

#include "mpi_quant/core/comm_state.hpp"

namespace mq {
namespace {

// Sets a parameter by its name, if the codec has it.
void set_parameter(Method& method, std::string_view name, double value) {
  for (std::size_t i = 0; i < method.codec->specs.size(); ++i)
    if (method.codec->specs[i].name == name) method.params.value[i] = value;
}

// True if lowrank can serve the call: it has a key and a matrix without gaps, and the factors are fewer elements than the
// matrix. It cannot serve calls of unmodified programs and half types.
bool suits_low_rank(const Method& method, const CallFacts& facts, const CallOptions& options) {
  const MatrixShape& matrix = options.matrix;
  if (options.may_fall_back || options.key.empty() || kernels::element_bytes(facts.element) == 2)
    return false;
  if (!matrix.is_given() || matrix.ld != matrix.rows) return false;
  const auto rank = static_cast<std::int64_t>(method.scheme_params.value[0]);
  return rank * (matrix.rows + matrix.columns) < matrix.rows * matrix.columns;
}

}  // namespace

void decline_scheme(CommState& state, Decision& decision) {
  decision.method = {};
  decision.exact = Reason::no_matrix;
  ++state.stats.declined_calls;
}

std::optional<Reason> exact_on_all_ranks(const CommState& state, const CallFacts& facts) {
  if (state.stats.exact_mode != 0) return state.stats.exact_mode == 1 ? Reason::differs : Reason::version;
  if (state.policy.rules.prospect(facts).may_compress) return {};
  return facts.bytes < state.policy.rules.floor_bytes() ? Reason::small : Reason::rule;
}

Decision decide(CommState& state, const CallFacts& facts, const CallOptions& options) {
  Decision decision;
  decision.state = state.shared_from_this();
  decision.seed = options.seed;
  Method& method = decision.method;
  if (options.method) {
    method = *options.method;
  } else if (state.stats.exact_mode == 1) {
    decision.exact = Reason::differs;
  } else {
    decision.rule = state.policy.rules.rule_for(facts);
    if (decision.rule != nullptr) {
      method = decision.rule->method;
      if (!decision.seed) decision.seed = decision.rule->seed;
    }
  }
  if (method.scheme != nullptr && !suits_low_rank(method, facts, options)) decline_scheme(state, decision);
  // MPI cannot add half types. In a call of this library's functions the codec of the type itself reduces
  // them.
  if (method.exact() && !options.may_fall_back && kernels::element_bytes(facts.element) == 2) {
    method.codec = kernels::find_codec(name(facts.element));
    decision.exact.reset();
  }
  if (method.exact() && !decision.exact) decision.exact = Reason::rule;
  if (!method.exact() && options.matrix.is_given()) {
    set_parameter(method, "rows", static_cast<double>(options.matrix.rows));
    set_parameter(method, "columns", static_cast<double>(options.matrix.columns));
    set_parameter(method, "ld", static_cast<double>(options.matrix.ld));
  }
  return decision;
}

Result<Decision> decide_requested(const Call& call, const CallOptions& options) {
  Decision decision;
  decision.exact = exact_by_ranks(call.comm);
  if (decision.exact) return decision;
  const Result<CommState*> found = CommState::obtain(call.comm, CommState::Initial::environment);
  if (!found.ok()) return found.status();
  CommState* const state = *found;
  if (state == nullptr || state->stats.exact_mode == 2) {  // the ranks cannot read each other's messages
    decision.exact = state == nullptr ? Reason::outside : Reason::version;
    return decision;
  }
  const std::scoped_lock lock(state->mutex);
  CallFacts facts;
  facts.number = state->policy.calls++;  // always, so that the ranks count alike even after an error
  std::optional<kernels::Element> element;
  decision.exact = exact_by_arguments(call, 1, element);
  if (element && call.count == 0) decision.exact = Reason::small;
  if (decision.exact) {
    decision.state = state->shared_from_this();
    return decision;
  }
  facts.element = *element;
  facts.bytes = static_cast<std::uint64_t>(call.count) * kernels::element_bytes(*element);
  facts.comm = state->policy.comm_name;
  (void)PMPI_Comm_size(call.comm, &facts.ranks);
  return decide(*state, facts, options);
}

}  // namespace mq
