#include "mpi_quant/core/comm_state.hpp"

#include <new>
#include <utility>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/core/watchdog.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {
namespace {

struct Agreed {
  std::string text;  // of rank 0
  bool same_text = false, same_version = false, same_name = false, same_bits = false;
};

// Collective. Returns the text of rank 0, and whether all ranks have the same. An error on every rank if
// `local` is an error on any rank.
Result<Agreed> compare(MPI_Comm comm, std::string_view text, std::string_view name, std::uint32_t bits,
                       const Status& local, std::string_view what) {
  // The same in every version of the library, so that versions can be compared.
  enum Compared { version, text_hash, error_and_bits, name_hash, kCompared };
  Agreed agreed{};
  Status local_error = local;
  if (local_error.ok()) try {
      agreed.text = text;  // now: after the reduction it is too late to tell the others of missing memory
    } catch (const std::bad_alloc&) {
      local_error = {Code::no_memory, "out of memory"};
    }
  const std::uint64_t mine[kCompared]{kWireVersion, hash_of(text),
                                      static_cast<std::uint64_t>(local_error.code()) << 32 | bits,
                                      hash_of(name)};
  Extremes found[kCompared];
  const auto wait = [](MPI_Comm in, MPI_Request& request) {
    return wait_watched(in, request, "at the first large sum", "is the library loaded on every rank?");
  };
  MQ_TRY(find_extremes(comm, mine, found, wait));
  if (!local_error.ok()) return local_error;
  if (found[error_and_bits].greatest >> 32 != 0)
    return Status{Code::peer_failed, "another rank cannot use its " + std::string(what)};

  agreed.same_text = found[text_hash].same();
  agreed.same_version = found[version].same();
  agreed.same_name = found[name_hash].same();
  agreed.same_bits = found[error_and_bits].same();
  if (agreed.same_text) return agreed;
  std::uint64_t length = text.size();
  MQ_TRY(mpi_status(real_mpi().bcast(&length, 1, MPI_UINT64_T, 0, comm), "MPI_Bcast"));
  agreed.text.resize(length);
  MQ_TRY(mpi_status(real_mpi().bcast(agreed.text.data(), static_cast<int>(length), MPI_CHAR, 0, comm),
                    "MPI_Bcast"));
  return agreed;
}

// The rules, and what else all ranks must have alike to choose alike.
std::string with_knowledge(const std::string& rules) {
  if (!env().ok() || !env()->has_knowledge) return rules;
  return rules + '\0' + std::to_string(knowledge_of_environment().hash);
}

}  // namespace

const KnowledgeFile& knowledge_of_environment() {
  static Immortal<KnowledgeFile> file([] {  // immortal: MPI_Finalize may run in atexit
    const std::string_view text = env().ok() ? std::string_view(env()->knowledge) : std::string_view();
    return KnowledgeFile{parse_knowledge(text), hash_of(text)};
  }());
  return *file;
}

Result<CommState*> CommState::obtain(MPI_Comm user_comm, Initial initial) {
  if (CommState* known = find_state(user_comm)) return known;
  const FirstUse alone(user_comm);
  if (CommState* known = find_state(user_comm)) return known;  // another thread was first
  if (!is_mpi_usable()) return nullptr;
  MQ_TRY(watch_finalize());

  // Gets all memory before the first message, so that the other ranks learn of what is missing here.
  std::shared_ptr<CommState> state;
  Status local_error = env().status();
  const Mode mode = env().ok() ? env()->mode : Mode::on;
  const std::uint32_t bits = static_cast<std::uint32_t>(mode) << 1 | (env().ok() && !env()->report.empty());
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  (void)PMPI_Comm_get_name(user_comm, name, &length);
  std::string rules, alike;  // alike: what all ranks must have alike
  Result<Policy> policy = Policy();
  const KnowledgeFile* knowledge = nullptr;
  try {
    if (env().ok() && initial == Initial::environment) {
      const std::string* const kept = kept_rules(user_comm);
      rules = kept != nullptr ? *kept : env()->policy;
    }
    alike = with_knowledge(rules);
    policy = Policy::parse(rules);
    knowledge = &knowledge_of_environment();
    state.reset(new CommState);
    for (const ExtensionKind* kind = ExtensionKind::first(); kind != nullptr; kind = kind->next())
      state->extensions.push_back(kind->make(*state));
    state->policy.comm_name = name;
    make_room_for_state();
  } catch (const std::bad_alloc&) {
    local_error = {Code::no_memory, "out of memory"};
  }
  const Result<Agreed> agreed =
      compare(user_comm, alike, name, bits, local_error, "environment (MPIQ_ variables), memory or MPI");
  if (!agreed.ok()) return agreed.status();
  if (!agreed->same_name) state->policy.comm_name.clear();
  state->policy.same_watch = agreed->same_bits;
  state->stats.exact_mode = !agreed->same_version                      ? MPIQ_EXACT_VERSION
                            : !agreed->same_text || !agreed->same_bits ? MPIQ_EXACT_POLICY
                                                                       : MPIQ_EXACT_NONE;
  if (state->stats.exact_mode == MPIQ_EXACT_NONE) {
    if (!policy.ok()) return explain(policy.status(), env().ok() ? env()->policy_file : "");
    if (!knowledge->lines.ok()) return knowledge->lines.status();
    state->policy.rules = std::move(*policy);
    state->policy.mode = mode;
    if (env().ok() && env()->has_knowledge) state->policy.knowledge = &*knowledge->lines;
  }

  CommState* const made = state.get();
  MQ_TRY(register_state(user_comm, std::move(state)));
  return made;
}

Status CommState::decline(MPI_Comm comm, const Status& why) {
  return compare(comm, {}, {}, 0, why, {}).status();
}

CommState::~CommState() { close(); }

void CommState::set_broken(const Status& why) {
  if (!broken.ok()) return;
  broken = why;
  keep();
}

void CommState::close() {
  // A broken communicator is kept. MPI may give its context to the next communicator, and receives that are
  // still posted would then take that one's messages.
  if (kept_ == nullptr) channel.close();
}

Extension& CommState::extension(const ExtensionKind& kind) {
  std::size_t i = 0;
  for (const ExtensionKind* other = ExtensionKind::first(); other != &kind; other = other->next()) ++i;
  return *extensions[i];
}

Status CommState::set_policy(MPI_Comm user_comm, std::string_view rules) {
  // All memory before the first message.
  Status local_error;
  Result<Policy> parsed = Policy();
  try {
    parsed = Policy::parse(rules);
  } catch (const std::bad_alloc&) {
    local_error = {Code::no_memory, "out of memory"};
  }
  const Result<Agreed> agreed = compare(user_comm, rules, {}, 0, local_error, "memory for rules");
  if (!agreed.ok()) return agreed.status();
  if (!agreed->same_version) return {Code::mismatch, "the ranks run incompatible versions of mpi_quant"};
  if (!agreed->same_text)
    return {Code::mismatch, "the ranks gave different rules; rank 0: \"" + agreed->text +
                                "\", this rank: \"" + std::string(rules) + "\""};
  if (!parsed.ok()) return parsed.status();
  const std::scoped_lock lock(mutex);
  policy.rules = std::move(*parsed);
  if (stats.exact_mode == MPIQ_EXACT_POLICY) stats.exact_mode = MPIQ_EXACT_NONE;  // now they agree
  return {};
}

}  // namespace mq
