#include "mpi_quant/comm_state.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/frame.hpp"

namespace mq {
namespace {

// Keyvals and the states that are alive. States of communicators the program never frees are dismantled by
// the hook on MPI_COMM_SELF, at the start of MPI_Finalize; after it the library passes everything through.
struct Registry {
  std::mutex mutex;
  std::atomic<int> state_key = MPI_KEYVAL_INVALID;
  int finalize_key = MPI_KEYVAL_INVALID;
  std::vector<CommState*> states;  // in the order they were made
  std::atomic<bool> finalized = false;
};

Registry& registry() {
  static Registry& r = *new Registry;  // never destroyed: MPI may call back while statics are torn down
  return r;
}

int delete_state(MPI_Comm, int, void* value, void*) {
  auto* const state = static_cast<CommState*>(value);
  {
    const std::scoped_lock lock(registry().mutex);
    if (std::erase(registry().states, state) == 0) return MPI_SUCCESS;  // the finalize hook was first
  }
  delete state;
  return MPI_SUCCESS;
}

int finalize(MPI_Comm, int, void*, void*) {
  std::vector<CommState*> states;
  {
    const std::scoped_lock lock(registry().mutex);
    registry().finalized = true;
    states.swap(registry().states);
  }
  for (CommState* state : states) delete state;
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
  r.state_key = state_key;
  return {};
}

}  // namespace

CommState::~CommState() {
  if (!broken.ok()) scratch.leak();
  if (private_comm_ != MPI_COMM_NULL) (void)PMPI_Comm_free(&private_comm_);
}

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
  int initialized = 0;
  (void)PMPI_Initialized(&initialized);
  if (!initialized || registry().finalized) return nullptr;
  MQ_TRY(make_keys());

  const Result<Env>& environment = env();
  const bool rules = environment.ok() && initial == Initial::environment;
  const Result<Agreed> agreed = compare(user_comm, rules ? environment->policy : "", environment.status(),
                                        "environment (MPIQ_POLICY, MPIQ_ISA)");
  if (!agreed.ok()) return agreed.status();
  std::unique_ptr<CommState> state(new CommState);
  state->stats.exact_mode = !agreed->same_version ? 2 : !agreed->same_text ? 1 : 0;
  if (state->stats.exact_mode == 0) {
    Result<Policy> policy = Policy::parse(agreed->text);
    if (!policy.ok()) return Status{policy.status().code(), "MPIQ_POLICY: " + policy.status().text()};
    state->policy = std::move(*policy);
  }
  if (!state->policy.always_exact()) MQ_TRY(state->activate(user_comm));

  {
    const std::scoped_lock lock(registry().mutex);
    registry().states.push_back(state.get());
  }
  const int code = PMPI_Comm_set_attr(user_comm, registry().state_key, state.get());
  if (code == MPI_SUCCESS) return state.release();
  const std::scoped_lock lock(registry().mutex);
  std::erase(registry().states, state.get());
  return mpi_status(code, "MPI_Comm_set_attr");
}

Status CommState::activate(MPI_Comm user_comm) {
  if (comm) return {};
  int rank = 0;
  MQ_TRY(mpi_status(PMPI_Comm_rank(user_comm, &rank), "MPI_Comm_rank"));
  // A split, not a dup: a dup would run the program's attribute copy callbacks and copy its topology and
  // info.
  MQ_TRY(mpi_status(PMPI_Comm_split(user_comm, 0, rank, &private_comm_), "MPI_Comm_split"));
  MQ_TRY(mpi_status(PMPI_Comm_set_errhandler(private_comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  comm.emplace(private_comm_);
  return {};
}

Result<CommState::Agreed> CommState::compare(MPI_Comm comm, std::string_view text, const Status& local,
                                             std::string_view what) {
  // One exact reduction finds any difference: the minimum of x and of ~x gives the minimum and the maximum.
  Hash hash;
  for (const char c : text) hash.add(c);
  const std::uint64_t mine[]{kWireVersion, hash.value(), static_cast<std::uint64_t>(local.code())};
  std::uint64_t pairs[6], least[6];
  for (int i = 0; i < 3; ++i) {
    pairs[2 * i] = mine[i];
    pairs[2 * i + 1] = ~mine[i];
  }
  MQ_TRY(mpi_status(PMPI_Allreduce(pairs, least, 6, MPI_UINT64_T, MPI_MIN, comm), "MPI_Allreduce"));
  const auto same = [&](int i) { return least[2 * i] == ~least[2 * i + 1]; };
  if (!local.ok()) return local;
  if (least[5] != ~std::uint64_t{0})
    return Status{Code::peer_failed, "another rank cannot use its " + std::string(what)};

  Agreed agreed{std::string(text), same(1), same(0)};
  if (agreed.same_text) return agreed;
  std::uint64_t length = text.size();
  MQ_TRY(mpi_status(PMPI_Bcast(&length, 1, MPI_UINT64_T, 0, comm), "MPI_Bcast"));
  agreed.text.resize(length);
  MQ_TRY(
      mpi_status(PMPI_Bcast(agreed.text.data(), static_cast<int>(length), MPI_CHAR, 0, comm), "MPI_Bcast"));
  return agreed;
}

Status CommState::set_policy(MPI_Comm user_comm, std::string_view rules) {
  const Result<Agreed> agreed = compare(user_comm, rules, {}, "rules");
  if (!agreed.ok()) return agreed.status();
  if (!agreed->same_version) return {Code::mismatch, "the ranks run incompatible versions of mpi_quant"};
  if (!agreed->same_text)
    return {Code::mismatch, "the ranks gave different rules; rank 0: \"" + agreed->text +
                                "\", this rank: \"" + std::string(rules) + "\""};
  Result<Policy> parsed = Policy::parse(rules);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->always_exact()) MQ_TRY(activate(user_comm));
  policy = std::move(*parsed);
  if (stats.exact_mode == 1) stats.exact_mode = 0;  // now they agree
  return {};
}

const Plan& CommState::plan(const PlanRow& row) {
  const auto at = plans_.find(row.id);
  if (at != plans_.end()) return at->second;
  return plans_.emplace(row.id, row.make(comm->rank(), comm->size())).first->second;
}

}  // namespace mq
