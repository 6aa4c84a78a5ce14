#include "mpi_quant/core/decide.hpp"

#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/registry.hpp"

namespace mq {
namespace {

bool is_half(const Situation& s) { return s.element && kernels::element_bytes(*s.element) == 2; }

bool fails_to_tell(MPI_Comm comm) {
  int inter = 0, size = 0;
  return comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS ||
         PMPI_Comm_size(comm, &size) != MPI_SUCCESS;
}

bool is_inter(MPI_Comm comm) {
  int inter = 0;
  return PMPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && inter != 0;
}

bool is_alone(MPI_Comm comm) {
  int size = 0;
  return PMPI_Comm_size(comm, &size) == MPI_SUCCESS && size < 2;
}

// True if all ranks are in MPI_COMM_WORLD. Others, spawned or connected, may run without this library.
bool inside_world(MPI_Comm comm) {
  int initialized = 0, result = MPI_UNEQUAL;
  if (PMPI_Initialized(&initialized) != MPI_SUCCESS || !initialized) return false;
  if (comm == MPI_COMM_WORLD) return true;
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL, common = MPI_GROUP_NULL;
  const bool known = PMPI_Comm_group(comm, &group) == MPI_SUCCESS &&
                     PMPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS &&
                     PMPI_Group_intersection(group, world, &common) == MPI_SUCCESS &&
                     PMPI_Group_compare(group, common, &result) == MPI_SUCCESS;
  for (MPI_Group* const made : {&group, &world, &common})
    if (*made != MPI_GROUP_NULL && *made != MPI_GROUP_EMPTY) (void)PMPI_Group_free(made);
  return known && result == MPI_IDENT;
}

// Fewer bytes than any rule of any policy compresses; of calls of this library: no element.
bool is_short(const Situation& s) {
  const std::uint64_t least = s.request.program != nullptr ? kSmallFloorBytes : 1;
  const std::uint64_t width = kernels::element_bytes(*s.element);
  return s.request.call.count == 0 || static_cast<std::uint64_t>(s.request.call.count) < least / width;
}

// True if no rule of the policy compresses the call, whichever site makes it.
bool no_rule_compresses(const Situation& s) {
  return s.request.program != nullptr && !s.state->policy.rules.prospect(s.facts).may_compress;
}

// True if lowrank can serve the call: it has a key and a matrix without gaps, and the factors are fewer elements than the
// matrix. It cannot serve requests, calls of unmodified programs and half types.
bool suits_low_rank(const Situation& s, const Method& method) {
  const MatrixShape& matrix = s.request.options.matrix;
  if (s.request.program != nullptr || !s.request.is_blocking) return false;
  if (s.request.options.key.empty() || is_half(s)) return false;
  if (!matrix.is_given() || matrix.ld != matrix.rows) return false;
  const auto rank = static_cast<std::int64_t>(method.scheme_params.value[0]);
  return rank * (matrix.rows + matrix.columns) < matrix.rows * matrix.columns;
}

bool has_tripped(const Situation& s, const Decision& d) {
  const auto& guards = s.state->intercepted.guards;
  const auto guard = s.request.program == nullptr ? guards.end() : guards.find(d.kind);
  return guard != guards.end() && guard->second.tripped;
}

// All reasons for which a call is left to MPI before it starts, in the order in which they are looked at. d: what
// the policy or the caller has chosen; for Knowledge::this_rank only.
struct Row {
  Knowledge stage;
  Reason reason;
  bool (*holds)(const Situation& s, const Decision& d);
};
constexpr Row kRows[] = {
    {Knowledge::arguments, Reason::handle,
     [](const Situation& s, const Decision&) {
       const Call& call = s.request.call;
       return call.comm == MPI_COMM_NULL || call.datatype == MPI_DATATYPE_NULL || call.op == MPI_OP_NULL ||
              call.count < 0;
     }},
    {Knowledge::arguments, Reason::type, [](const Situation& s, const Decision&) { return !s.element; }},
    {Knowledge::arguments, Reason::op,
     [](const Situation& s, const Decision&) { return s.request.call.op != MPI_SUM; }},
    {Knowledge::arguments, Reason::small, [](const Situation& s, const Decision&) { return is_short(s); }},

    {Knowledge::ranks, Reason::handle,
     [](const Situation& s, const Decision&) { return fails_to_tell(s.request.call.comm); }},
    {Knowledge::ranks, Reason::inter,
     [](const Situation& s, const Decision&) { return is_inter(s.request.call.comm); }},
    {Knowledge::ranks, Reason::alone,
     [](const Situation& s, const Decision&) { return is_alone(s.request.call.comm); }},
    {Knowledge::ranks, Reason::foreign,
     [](const Situation& s, const Decision&) {
       return s.request.program != nullptr && find_state(s.request.call.comm) == nullptr &&
              !inside_world(s.request.call.comm);
     }},

    {Knowledge::all_ranks, Reason::version,
     [](const Situation& s, const Decision&) { return s.state->stats.exact_mode == 2; }},
    {Knowledge::all_ranks, Reason::differs,
     [](const Situation& s, const Decision&) {
       return s.state->stats.exact_mode == 1 && !s.request.options.method;
     }},
    {Knowledge::all_ranks, Reason::small,
     [](const Situation& s, const Decision&) {
       return no_rule_compresses(s) && s.facts.bytes < s.state->policy.rules.floor_bytes();
     }},
    {Knowledge::all_ranks, Reason::rule,
     [](const Situation& s, const Decision&) { return no_rule_compresses(s); }},

    {Knowledge::this_rank, Reason::switched_off,
     [](const Situation& s, const Decision&) { return s.said.off; }},
    {Knowledge::this_rank, Reason::no_matrix,
     [](const Situation& s, const Decision& d) {
       return d.method.scheme != nullptr && !suits_low_rank(s, d.method);
     }},
    {Knowledge::this_rank, Reason::rule,
     [](const Situation&, const Decision& d) { return d.method.exact(); }},
    {Knowledge::this_rank, Reason::guard, has_tripped},
};

std::optional<Reason> first_reason(Knowledge stage, const Situation& s, const Decision& d) {
  for (const Row& row : kRows)
    if (row.stage == stage && row.holds(s, d)) return row.reason;
  return {};
}

// What the caller or else the policy says.
Decision choice(const Situation& s) {
  Decision d;
  const CallOptions& options = s.request.options;
  d.key = options.key;
  d.seed = options.seed;
  if (s.said.off) return d;
  if (options.method) {
    d.method = *options.method;
    return d;
  }
  d.rule = s.state->policy.rules.rule_for(s.facts);
  if (d.rule == nullptr) return d;
  d.method = d.rule->method;
  if (!d.seed) d.seed = d.rule->seed;
  if (s.request.program == nullptr) return d;
  const Safeguards& asked = d.rule->safeguards;
  d.safeguards = Hash{}.add(asked.feedback).add(asked.guard).add(asked.error).value();
  if (!d.method.exact())
    d.kind = d.safeguards ^ hash_of(d.method.params) ^ memory_hash(d.method) ^
             (std::uint64_t{d.method.codec->id} << 48);
  return d;
}

// Sets a parameter by its name, if the codec has it.
void set_parameter(Method& method, std::string_view name, double value) {
  for (std::size_t i = 0; i < method.codec->specs.size(); ++i)
    if (method.codec->specs[i].name == name) method.params.value[i] = value;
}

}  // namespace

std::uint64_t memory_hash(const Method& method) {
  return method.memory == nullptr ? 0 : Hash{}.add(method.memory->id).add(method.memory_params.value).value();
}

std::optional<Reason> why_exact(Knowledge stage, const Situation& s) { return first_reason(stage, s, {}); }

Decision decide(const Situation& s) {
  Decision d;
  std::optional<Reason> why;
  // Programs were asked before, for there the answer ends the call.
  if (s.request.program == nullptr) why = why_exact(Knowledge::all_ranks, s);
  if (!why) {
    d = choice(s);
    why = first_reason(Knowledge::this_rank, s, d);
  }
  d.declined = why == Reason::no_matrix;
  if (why) d.leave_to_mpi(*why);
  // MPI cannot add half types. In a call of this library's functions the codec of the type itself reduces them.
  if (d.method.exact() && s.request.program == nullptr && is_half(s)) {
    d.method.codec = kernels::find_codec(name(*s.element));
    d.reason = Reason::compressed;
  }
  const MatrixShape& matrix = s.request.options.matrix;
  if (!d.method.exact() && matrix.is_given()) {
    set_parameter(d.method, "rows", static_cast<double>(matrix.rows));
    set_parameter(d.method, "columns", static_cast<double>(matrix.columns));
    set_parameter(d.method, "ld", static_cast<double>(matrix.ld));
  }
  return d;
}

}  // namespace mq
