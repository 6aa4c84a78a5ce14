#include "mpi_quant/core/comm_state.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/core/watchdog.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {
namespace {

// Keyvals and the states that are alive. States of communicators the program never frees are dismantled by
// the hook on MPI_COMM_SELF, at the start of MPI_Finalize; after it the library passes everything through.
struct Registry {
  std::mutex mutex;
  std::atomic<int> state_key = MPI_KEYVAL_INVALID;
  std::atomic<int> rules_key = MPI_KEYVAL_INVALID;
  int finalize_key = MPI_KEYVAL_INVALID;
  std::atomic<void (*)()> at_finalize = nullptr;
  std::vector<std::shared_ptr<CommState>> states;  // in the order they were made
  std::atomic<bool> finalized = false;
  std::size_t unfinished = 0;  // requests at MPI_Finalize
};

Registry& registry() {
  static Immortal<Registry> r;  // MPI may call back while statics are torn down
  return *r;
}

// Takes a state out of the registry; null if it is not there any more.
std::shared_ptr<CommState> forget(const CommState* state) {
  const std::scoped_lock lock(registry().mutex);
  auto& states = registry().states;
  const auto at = std::find_if(states.begin(), states.end(), [&](const auto& s) { return s.get() == state; });
  if (at == states.end()) return nullptr;
  std::shared_ptr<CommState> found = std::move(*at);
  states.erase(at);
  return found;
}

int delete_state(MPI_Comm, int, void* value, void*) {
  if (const auto state = forget(static_cast<CommState*>(value)))
    state->orphan = true;  // else finalize() was first
  return MPI_SUCCESS;
}

int delete_rules(MPI_Comm, int, void* value, void*) {
  delete static_cast<std::string*>(value);
  return MPI_SUCCESS;
}

int finalize(MPI_Comm, int, void*, void*) {
  constexpr int kPatience_s = 30;
  registry().unfinished = abandon_requests(env().ok() && env()->watchdog > 0 ? env()->watchdog : kPatience_s);
  if (auto* const run = registry().at_finalize.exchange(nullptr))
    run();
  else if (registry().unfinished > 0)
    say_unfinished(registry().unfinished);
  std::vector<std::shared_ptr<CommState>> states;
  {
    const std::scoped_lock lock(registry().mutex);
    registry().finalized = true;
    states.swap(registry().states);
  }
  for (const auto& state : states) state->close();
  free_half_datatypes();
  return MPI_SUCCESS;
}

Status make_keys() {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  if (r.state_key != MPI_KEYVAL_INVALID) return {};
  MQ_TRY(mpi_status(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize, &r.finalize_key, nullptr),
                    "MPI_Comm_create_keyval"));
  MQ_TRY(mpi_status(PMPI_Comm_set_attr(MPI_COMM_SELF, r.finalize_key, nullptr), "MPI_Comm_set_attr"));
  int state_key = MPI_KEYVAL_INVALID;
  MQ_TRY(mpi_status(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_state, &state_key, nullptr),
                    "MPI_Comm_create_keyval"));
  int rules_key = MPI_KEYVAL_INVALID;
  MQ_TRY(mpi_status(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_rules, &rules_key, nullptr),
                    "MPI_Comm_create_keyval"));
  r.rules_key = rules_key;
  r.state_key = state_key;
  return {};
}

// The rules kept for the first use of comm, null for none.
const std::string* kept_rules(MPI_Comm comm) {
  void* value = nullptr;
  int found = 0;
  if (PMPI_Comm_get_attr(comm, registry().rules_key, &value, &found) != MPI_SUCCESS || !found) return nullptr;
  return static_cast<const std::string*>(value);
}

}  // namespace

CommState::~CommState() { close(); }

void CommState::set_broken(const Status& why) {
  if (!broken.ok()) return;
  broken = why;
  keep();
}

void CommState::close() {
  // Receives that are still posted on a broken one would take the messages of the next to get its context.
  if (kept_ == nullptr) lease_.comm.reset();
}

Status CommState::watch_finalize() { return make_keys(); }

void CommState::at_finalize(void (*run)()) { registry().at_finalize = run; }

Status CommState::keep_rules(MPI_Comm comm, std::string_view rules) {
  if (find(comm) != nullptr)
    return {Code::bad_argument, "info mpiq_policy comes after the first large sum on the communicator"};
  MQ_TRY(Policy::parse(rules).status());
  MQ_TRY(make_keys());
  auto text = std::make_unique<std::string>(rules);
  MQ_TRY(mpi_status(PMPI_Comm_set_attr(comm, registry().rules_key, text.get()), "MPI_Comm_set_attr"));
  (void)text.release();  // delete_rules
  return {};
}

CommState::Memory CommState::memory() {
  const std::scoped_lock lock(registry().mutex);
  Memory all;
  for (const auto& state : registry().states) {
    const std::scoped_lock state_lock(state->mutex);
    all.scratch_bytes += state->all_scratch_bytes();
    all.residual_bytes += state->residuals.bytes();
  }
  return all;
}

std::size_t CommState::unfinished_requests() { return registry().unfinished; }

CommState* CommState::find(MPI_Comm comm) {
  Registry& r = registry();
  if (r.state_key == MPI_KEYVAL_INVALID || r.finalized) return nullptr;
  void* value = nullptr;
  int found = 0;
  if (PMPI_Comm_get_attr(comm, r.state_key, &value, &found) != MPI_SUCCESS || !found) return nullptr;
  return static_cast<CommState*>(value);
}

Result<CommState*> CommState::obtain(MPI_Comm user_comm, Initial initial) {
  if (CommState* known = find(user_comm)) return known;
  const FirstUse alone(user_comm);
  if (CommState* known = find(user_comm)) return known;  // another thread was first
  int initialized = 0;
  (void)PMPI_Initialized(&initialized);
  if (!initialized || registry().finalized) return nullptr;
  MQ_TRY(make_keys());

  // All memory before the first message: whatever is missing here is told to the others.
  std::shared_ptr<CommState> state;
  Status local_error = env().status();
  const Mode mode = env().ok() ? env()->mode : Mode::on;
  const std::uint32_t facts = static_cast<std::uint32_t>(mode) << 1 | (env().ok() && !env()->report.empty());
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  (void)PMPI_Comm_get_name(user_comm, name, &length);
  std::string rules;
  Result<Policy> policy = Policy();
  try {
    if (env().ok() && initial == Initial::environment) {
      const std::string* const kept = kept_rules(user_comm);
      rules = kept != nullptr ? *kept : env()->policy;
    }
    policy = Policy::parse(rules);
    state.reset(new CommState);
    state->extension = make_extension();
    state->name = name;
    const std::scoped_lock lock(registry().mutex);
    registry().states.reserve(registry().states.size() + 1);
  } catch (const std::bad_alloc&) {
    local_error = {Code::no_memory, "out of memory"};
  }
  const Result<Agreed> agreed =
      compare(user_comm, rules, name, facts, local_error, "environment (MPIQ_ variables) or memory");
  if (!agreed.ok()) return agreed.status();
  if (!agreed->same_name) state->name.clear();
  state->same_watch = agreed->same_facts;
  state->stats.exact_mode = !agreed->same_version ? 2 : !agreed->same_text || !agreed->same_facts ? 1 : 0;
  if (state->stats.exact_mode == 0) {
    if (!policy.ok()) return explain(policy.status(), env().ok() ? env()->policy_file : "");
    state->policy = std::move(*policy);
    state->mode = mode;
  }

  CommState* const made = state.get();
  {
    const std::scoped_lock lock(registry().mutex);
    registry().states.push_back(std::move(state));
  }
  const int code = PMPI_Comm_set_attr(user_comm, registry().state_key, made);
  if (code == MPI_SUCCESS) return made;
  (void)forget(made);
  return mpi_status(code, "MPI_Comm_set_attr");
}

// More is wanted of the communicator than messages. An agreement on those first: a rank that makes another
// kind of call gets an error, as all do, and does not hang.
Status CommState::meet() {
  blocking.prepare_function("a function of mpi_quant.h", {});
  blocking.start();
  while (!blocking.done())
    if (!blocking.advance() && !advance_requests()) comm->idle();
  return blocking.outcome().status;
}

void CommState::take(const Nodes& nodes) {
  per_node_ = nodes.per_node;
  comm.emplace(lease_.comm->handle, is_crowded(nodes.ranks));
}

Result<bool> CommState::activate(MPI_Comm user_comm, Use use) {
  if (!comm || (use == Use::all && lease_.use != Use::all)) {
    bool& refused = refused_[static_cast<std::size_t>(use)];
    if (refused) return false;
    // Functions that reduce nothing begin likewise, see meeting.hpp.
    MQ_TRY(comm ? meet() : collective_check(user_comm, {}, "a reduction"));
    Result<Lease> taken = lease(user_comm, use);
    if (!taken.ok()) return taken.status();
    refused = taken->comm == nullptr;
    if (refused) return false;
    lease_ = std::move(*taken);
    comm.emplace(lease_.comm->handle, is_crowded(1));
    if (lease_.comm->nodes) take(*lease_.comm->nodes);
    // Four segments cover one message by the codec's work on three others. Where a segment has a message for
    // each of many ranks, two do, and take half the memory.
    lanes = std::clamp(lease_.threads, comm->size() < 16 ? 4 : 2, kMaxLanes);
  }
  if (!per_node_ && policy.by_nodes()) {
    const Result<Nodes> nodes = nodes_of(user_comm);
    if (!nodes.ok()) return nodes.status();
    take(*nodes);
  }
  return true;
}

Result<CommState::Agreed> CommState::compare(MPI_Comm comm, std::string_view text, std::string_view name,
                                             std::uint32_t facts, const Status& local,
                                             std::string_view what) {
  // One exact reduction finds any difference: the minimum of x and of ~x gives the minimum and the maximum.
  const auto hash_of_text = [](std::string_view words) {
    Hash hash;
    for (const char c : words) hash.add(c);
    return hash.value();
  };
  constexpr int kValues = 4;  // in every version of the library, so that versions can be compared
  const std::uint64_t mine[kValues]{kWireVersion, hash_of_text(text),
                                    static_cast<std::uint64_t>(local.code()) << 32 | facts,
                                    hash_of_text(name)};
  std::uint64_t pairs[2 * kValues], least[2 * kValues];
  for (int i = 0; i < kValues; ++i) {
    pairs[2 * i] = mine[i];
    pairs[2 * i + 1] = ~mine[i];
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MQ_TRY(mpi_status(real_mpi().iallreduce(pairs, least, 2 * kValues, MPI_UINT64_T, MPI_MIN, comm, &request),
                    "MPI_Iallreduce"));
  MQ_TRY(wait_watched(comm, request, "at the first large sum", "is the library loaded on every rank?"));
  const auto same = [&](int i) { return least[2 * i] == ~least[2 * i + 1]; };
  if (!local.ok()) return local;
  if (~least[5] >> 32 != 0)  // the greatest
    return Status{Code::peer_failed, "another rank cannot use its " + std::string(what)};

  Agreed agreed{std::string(text), same(1), same(0), same(3), same(2)};
  if (agreed.same_text) return agreed;
  std::uint64_t length = text.size();
  MQ_TRY(mpi_status(PMPI_Bcast(&length, 1, MPI_UINT64_T, 0, comm), "MPI_Bcast"));
  agreed.text.resize(length);
  MQ_TRY(
      mpi_status(PMPI_Bcast(agreed.text.data(), static_cast<int>(length), MPI_CHAR, 0, comm), "MPI_Bcast"));
  return agreed;
}

Status CommState::set_policy(MPI_Comm user_comm, std::string_view rules) {
  const Result<Agreed> agreed = compare(user_comm, rules, {}, 0, {}, "rules");
  if (!agreed.ok()) return agreed.status();
  if (!agreed->same_version) return {Code::mismatch, "the ranks run incompatible versions of mpi_quant"};
  if (!agreed->same_text)
    return {Code::mismatch, "the ranks gave different rules; rank 0: \"" + agreed->text +
                                "\", this rank: \"" + std::string(rules) + "\""};
  Result<Policy> parsed = Policy::parse(rules);
  if (!parsed.ok()) return parsed.status();
  const std::scoped_lock lock(mutex);
  policy = std::move(*parsed);
  if (stats.exact_mode == 1) stats.exact_mode = 0;  // now they agree
  return {};
}

const CommState::Program& CommState::program(const PlanRow& row, kernels::Element element) {
  // Raw frames hold elements of the compute type: of half types they would be twice the vector.
  const int per_node = kernels::compute_element(element) == element ? per_node_.value_or(1) : 1;
  const auto at = programs_.find({row.id, per_node});
  if (at != programs_.end()) return at->second;
  Plan plan = row.make({comm->rank(), comm->size(), per_node});
  PlanFacts facts = facts_of(plan);
  return programs_.emplace(std::pair(row.id, per_node), Program{std::move(plan), std::move(facts)})
      .first->second;
}

int CommState::enter(const QueuePosition& place, std::uint32_t number) {
  if (number != entered_ || number - oldest_ >= kWindows) return -1;
  ++entered_;
  window_[number % kWindows] = &place;
  return static_cast<int>(number % kWindows);
}

void CommState::leave(std::uint32_t number) {
  window_[number % kWindows] = nullptr;
  while (oldest_ != entered_ && window_[oldest_ % kWindows] == nullptr) ++oldest_;
}

bool CommState::may_reduce(std::uint32_t number) const {
  for (std::uint32_t i = oldest_; i != number; ++i)
    if (window_[i % kWindows] != nullptr && !window_[i % kWindows]->past_turn) return false;
  return true;
}

}  // namespace mq
