#include "mpi_quant/core/decide.hpp"

#include <utility>

#include "mpi_quant/core/choices.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/core/scheme.hpp"

namespace mq {
namespace {

bool is_half(const Situation& s) { return s.element && kernels::element_bytes(*s.element) == 2; }

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
  const std::uint64_t least = s.program != nullptr ? kSmallFloorBytes : 1;
  const std::uint64_t width = kernels::element_bytes(*s.element);
  return s.call.count == 0 || static_cast<std::uint64_t>(s.call.count) < least / width;
}

// True if no rule of the policy compresses the call, whichever site makes it.
bool no_rule_compresses(const Situation& s) { return s.program != nullptr && !s.prospect.may_compress; }

// The method is a scheme, and it cannot serve the call. No scheme serves calls of unmodified programs, groups
// and half types.
bool is_unfit_for_scheme(const Situation& s, const Decision& d) {
  if (d.method.scheme == nullptr) return false;
  const Call& call = s.call;
  if (s.program != nullptr || call.collective != Collective::allreduce || call.group != nullptr || is_half(s))
    return true;
  const SchemeEntry* const entry = SchemeEntry::find(*d.method.scheme);
  return entry != nullptr && !entry->suits(call, *s.options, d.method.scheme_params);
}

bool has_tripped(const Situation& s, const Decision& d) {
  const auto& guards = s.state->intercepted.guards;
  const auto guard = s.program == nullptr ? guards.end() : guards.find(d.kind);
  return guard != guards.end() && guard->second.tripped;
}

// auto chose a method with feedback, and nobody knows whose residual it would be.
bool lacks_residual(const Situation& s, const Decision& d) {
  const bool has_key = !d.key.empty() || (s.call.group != nullptr && s.call.group->has_keys);
  return s.automatic != nullptr && s.automatic->kind == Automatic::Kind::feedback && !has_key &&
         !d.method.exact() && !d.method.codec->lossless;
}

// The reasons that are known before a call gets its memory, in the order in which they are looked at.
// d: what the policy or the caller has chosen; from Knowledge::this_rank on. The others, by stage:
//   before   small (preload/stub.c: short vectors); rule (no rule names the collective), nonblocking and
//            persistent (preload/intercept.cpp); no_communicator and would_be_compressed (allreduce.cpp)
//   acquire  capture (acquire.cpp); no_memory (Decision::leave_if_no_memory)
//   agree    split, and by auto inexact and slower (RunningCall::why_exact_now)
//   settle   failed (running_call.cpp); guard (unmodified.cpp) and inexact (choices.cpp), both by replaced()
struct Row {
  Knowledge stage;
  Reason reason;
  bool (*holds)(const Situation& s, const Decision& d);
};
constexpr Row kRows[] = {
    {Knowledge::arguments, Reason::handle,
     [](const Situation& s, const Decision&) {
       const Call& call = s.call;
       return call.comm == MPI_COMM_NULL || call.datatype == MPI_DATATYPE_NULL || call.op == MPI_OP_NULL ||
              call.count < 0;
     }},
    {Knowledge::arguments, Reason::type, [](const Situation& s, const Decision&) { return !s.element; }},
    {Knowledge::arguments, Reason::op,
     [](const Situation& s, const Decision&) { return s.call.op != MPI_SUM; }},
    {Knowledge::arguments, Reason::small, [](const Situation& s, const Decision&) { return is_short(s); }},

    {Knowledge::ranks, Reason::handle, [](const Situation& s, const Decision&) { return s.ranks < 0; }},
    {Knowledge::ranks, Reason::inter, [](const Situation& s, const Decision&) { return s.is_inter; }},
    {Knowledge::ranks, Reason::alone, [](const Situation& s, const Decision&) { return s.ranks < 2; }},
    {Knowledge::ranks, Reason::foreign,
     [](const Situation& s, const Decision&) {
       return s.program != nullptr && s.state == nullptr && !inside_world(s.call.comm);
     }},

    {Knowledge::first_use, Reason::outside,
     [](const Situation& s, const Decision&) { return s.state == nullptr; }},
    {Knowledge::first_use, Reason::version,
     [](const Situation& s, const Decision&) { return s.state->stats.exact_mode == MPIQ_EXACT_VERSION; }},
    {Knowledge::all_ranks, Reason::differs,
     [](const Situation& s, const Decision&) {
       return s.state->stats.exact_mode == MPIQ_EXACT_POLICY && !s.options->method;
     }},
    {Knowledge::all_ranks, Reason::small,
     [](const Situation& s, const Decision&) {
       return s.call_key->bytes < s.state->policy.rules.floor_bytes() && no_rule_compresses(s);
     }},
    {Knowledge::all_ranks, Reason::rule,
     [](const Situation& s, const Decision&) { return no_rule_compresses(s); }},

    {Knowledge::all_ranks, Reason::slower,
     [](const Situation& s, const Decision&) {
       return s.program != nullptr && s.chosen != nullptr && !s.chosen->choice.agrees;
     }},

    {Knowledge::this_rank, Reason::type,
     [](const Situation& s, const Decision&) {
       return s.call.parted != nullptr && s.call.parted->is_unusual;
     }},
    {Knowledge::this_rank, Reason::switched_off,
     [](const Situation& s, const Decision&) { return s.said.off; }},
    {Knowledge::this_rank, Reason::no_matrix, is_unfit_for_scheme},
    {Knowledge::this_rank, Reason::slower,
     [](const Situation& s, const Decision& d) { return s.automatic != nullptr && d.method.exact(); }},
    {Knowledge::this_rank, Reason::rule,
     [](const Situation&, const Decision& d) { return d.method.exact(); }},
    // What happens with an unmodified program's overlapping vectors is MPI's to say.
    {Knowledge::this_rank, Reason::overlap,
     [](const Situation& s, const Decision&) { return s.program != nullptr && overlaps(s.call, s.element); }},
    {Knowledge::this_rank, Reason::guard, has_tripped},

    {Knowledge::residual, Reason::no_residual, lacks_residual},
};

const Decision kNothing;

// The rows are constants, so each stage becomes code without a loop.
template <Knowledge stage>
std::optional<Reason> first_reason(const Situation& s, const Decision& d) {
  std::optional<Reason> found;
  [&]<std::size_t... row>(std::index_sequence<row...>) {
    (void)((kRows[row].stage == stage && kRows[row].holds(s, d) && (found = kRows[row].reason, true)) || ...);
  }
  (std::make_index_sequence<std::size(kRows)>());
  return found;
}

std::optional<Reason> first_reason(Knowledge stage, const Situation& s, const Decision& d) {
  switch (stage) {
    case Knowledge::arguments: return first_reason<Knowledge::arguments>(s, d);
    case Knowledge::ranks: return first_reason<Knowledge::ranks>(s, d);
    case Knowledge::first_use: return first_reason<Knowledge::first_use>(s, d);
    case Knowledge::all_ranks: return first_reason<Knowledge::all_ranks>(s, d);
    case Knowledge::this_rank: return first_reason<Knowledge::this_rank>(s, d);
    case Knowledge::residual: return first_reason<Knowledge::residual>(s, d);
  }
  return {};
}

// auto has chosen. Only methods with feedback keep a residual: the limit of the others is of each result.
void take_choice(const Situation& s, Decision& d) {
  d.ignores_keys = s.automatic == nullptr || s.automatic->kind != Automatic::Kind::feedback;
  if (d.ignores_keys) d.key = {};
  d.method = d.chosen.calls == nullptr ? Method{} : candidate_of(d.chosen).method;
}

// Chooses the method that the caller or else the policy names.
void choose(const Situation& s, Decision& d) {
  if (s.chosen != nullptr)
    d.chosen = *s.chosen;  // also if this rank then reduces otherwise: it hears the others
  if (s.said.off) return;
  if (s.options->method) {
    d.method = *s.options->method;
    if (d.method.chooses()) take_choice(s, d);
    return;
  }
  d.rule = s.state->policy.rules.rule_for(*s.call_key);
  if (d.rule == nullptr) return;
  d.method = d.rule->method;
  if (d.method.chooses()) take_choice(s, d);
  if (!d.seed) d.seed = d.rule->seed;
  if (s.program == nullptr) return;
  const Safeguards& asked = d.rule->safeguards;
  d.agreed_options_hash = Hash{}.add(asked.feedback).add(asked.guard).add(asked.error).value();
  if (!d.method.exact())
    d.kind = d.agreed_options_hash ^ hash_of(d.method.params) ^ memory_hash(d.method) ^
             (std::uint64_t{d.method.codec->id} << 48) ^
             (static_cast<std::uint64_t>(s.call.collective) << 40);
}

// Sets a parameter by its name, if the codec has it.
void set_parameter(Method& method, std::string_view name, double value) {
  for (std::size_t i = 0; i < method.codec->specs.size(); ++i)
    if (method.codec->specs[i].name == name) method.params.value[i] = value;
}

}  // namespace

bool overlaps(const Call& call, std::optional<kernels::Element> element) {
  if (!element || call.count <= 0 || call.sendbuf == MPI_IN_PLACE) return false;
  const std::uintptr_t width = kernels::element_bytes(*element), in = call.input_range().n * width,
                       out = call.output_range().n * width;
  const auto from = reinterpret_cast<std::uintptr_t>(call.sendbuf),
             to = reinterpret_cast<std::uintptr_t>(call.recvbuf);
  return from <= to ? to - from < in && out > 0 : from - to < out && in > 0;
}

std::uint64_t memory_hash(const Method& method) {
  return method.memory == nullptr ? 0 : Hash{}.add(method.memory->id).add(method.memory_params.value).value();
}

void Situation::ask_element() {
  if (call.datatype != MPI_DATATYPE_NULL) element = element_of(call.datatype);
}

void Situation::ask_ranks() {
  int inter = 0;
  const bool tells = call.comm != MPI_COMM_NULL && PMPI_Comm_test_inter(call.comm, &inter) == MPI_SUCCESS &&
                     PMPI_Comm_size(call.comm, &ranks) == MPI_SUCCESS;
  if (!tells) ranks = -1;
  is_inter = inter != 0;
  if (program != nullptr && ranks > 1 && !is_inter) state = find_state(call.comm);
}

void Situation::ask_auto(Chosen& into) {
  // MPI adds few half types, so it cannot stand in for other methods either.
  if (state->stats.exact_mode != MPIQ_EXACT_NONE || is_half(*this)) return;
  if (options->method) {
    if (options->method->chooses()) automatic = &options->method->automatic;
  } else if (state->policy.rules.chooses()) {
    const Rule* const rule = state->policy.rules.rule_for(*call_key);
    if (rule != nullptr && rule->method.chooses()) automatic = &rule->method.automatic;
  }
  if (automatic == nullptr) return;
  into = choose_automatically(*this, *automatic);
  chosen = &into;
}

std::optional<Reason> why_exact(Knowledge stage, const Situation& s) {
  return first_reason(stage, s, kNothing);
}

bool leave_if_known(Knowledge stage, const Situation& s, Decision& d) {
  const auto why = first_reason(stage, s, d);
  if (why) d.leave_to_mpi(*why);
  return why.has_value();
}

Decision decide(const Situation& s) {
  Decision d;
  d.key = s.options->key;
  d.seed = s.options->seed;
  const bool is_requested = s.program == nullptr;
  // For a program this stage came before, because its answer ends the call there.
  if (!is_requested || !leave_if_known(Knowledge::all_ranks, s, d)) {
    choose(s, d);
    if (!leave_if_known(Knowledge::this_rank, s, d) && is_requested)
      (void)leave_if_known(Knowledge::residual, s, d);
  }
  d.declined = d.reason == Reason::no_matrix;
  // MPI adds no half types but some of its own, though it can gather all. In a call of this library's
  // functions the codec of the type itself reduces the others, and makes all means: it divides before it
  // rounds, so that a mean is there where the sum is too large for the type.
  if (d.method.exact() && is_requested && is_half(s) && adds(s.call.collective) &&
      (s.call.divisor != 1 || !mpi_sums_half(s.call.datatype, *s.element))) {
    d.method.codec = kernels::find_codec(name(*s.element));
    d.reason = Reason::compressed;
  }
  const MatrixShape& matrix = s.options->matrix;
  if (!d.method.exact() && matrix.is_given()) {
    set_parameter(d.method, "rows", static_cast<double>(matrix.rows));
    set_parameter(d.method, "columns", static_cast<double>(matrix.columns));
    set_parameter(d.method, "ld", static_cast<double>(matrix.ld));
  }
  return d;
}

}  // namespace mq
