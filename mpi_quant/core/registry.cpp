#include "mpi_quant/core/registry.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/watchdog.hpp"

namespace mq {
namespace {

struct Registry {
  std::mutex mutex;
  std::atomic<int> state_key = MPI_KEYVAL_INVALID;
  std::atomic<int> rules_key = MPI_KEYVAL_INVALID;
  int finalize_key = MPI_KEYVAL_INVALID;
  std::atomic<bool (*)()> at_finalize = nullptr;
  std::vector<std::shared_ptr<CommState>> states;  // in the order they were made
  std::atomic<bool> finalized = false;
  std::size_t unfinished = 0;  // requests at MPI_Finalize
};

Registry& registry() {
  static Immortal<Registry> r;  // MPI may call back while statics are destroyed
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

// The attribute of a communicator. Null: it has none, or no communicator has ever had any.
void* value_of(MPI_Comm comm, int key) {
  void* value = nullptr;
  int found = 0;
  const bool is_told =
      key != MPI_KEYVAL_INVALID && PMPI_Comm_get_attr(comm, key, &value, &found) == MPI_SUCCESS;
  return is_told && found ? value : nullptr;
}

int delete_state(MPI_Comm comm, int, void* value, void*) {
  const auto state = forget(static_cast<CommState*>(value));
  if (state == nullptr) return MPI_SUCCESS;  // finalize() was first
  state->orphan_handler = keep_handler(comm);
  state->orphan = true;
  return MPI_SUCCESS;
}

int delete_rules(MPI_Comm, int, void* value, void*) {
  delete static_cast<std::string*>(value);
  return MPI_SUCCESS;
}

// MPI deletes the attributes of MPI_COMM_SELF when MPI_Finalize begins, and so calls this function. It also
// closes the states of communicators that the program never frees.
int finalize(MPI_Comm, int, void*, void*) {
  constexpr int kPatience_s = 30;
  registry().unfinished = abandon_requests(env().ok() && env()->watchdog > 0 ? env()->watchdog : kPatience_s);
  auto* const run = registry().at_finalize.exchange(nullptr);
  const bool is_reported = run != nullptr && run();
  if (!is_reported && registry().unfinished > 0) say_unfinished(registry().unfinished);
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

}  // namespace

Status watch_finalize() {
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

void at_finalize(bool (*run)()) { registry().at_finalize = run; }

std::size_t unfinished_requests() { return registry().unfinished; }

bool is_mpi_usable() {
  int initialized = 0;
  (void)PMPI_Initialized(&initialized);
  return initialized && !registry().finalized;
}

CommState* find_state(MPI_Comm comm) {
  return registry().finalized ? nullptr : static_cast<CommState*>(value_of(comm, registry().state_key));
}

bool had_state(MPI_Comm comm) { return value_of(comm, registry().state_key) != nullptr; }

void make_room_for_state() {
  const std::scoped_lock lock(registry().mutex);
  registry().states.reserve(registry().states.size() + 1);
}

Status register_state(MPI_Comm comm, std::shared_ptr<CommState> state) {
  CommState* const made = state.get();
  {
    const std::scoped_lock lock(registry().mutex);
    registry().states.push_back(std::move(state));
  }
  const int code = PMPI_Comm_set_attr(comm, registry().state_key, made);
  if (code != MPI_SUCCESS) (void)forget(made);
  return mpi_status(code, "MPI_Comm_set_attr");
}

Status keep_rules(MPI_Comm comm, std::string_view rules) {
  if (find_state(comm) != nullptr)
    return {Code::bad_argument, "info mpiq_policy comes after the first large sum on the communicator"};
  MQ_TRY(Policy::parse(rules).status());
  MQ_TRY(watch_finalize());
  auto text = std::make_unique<std::string>(rules);
  MQ_TRY(mpi_status(PMPI_Comm_set_attr(comm, registry().rules_key, text.get()), "MPI_Comm_set_attr"));
  (void)text.release();  // delete_rules frees it
  return {};
}

const std::string* kept_rules(MPI_Comm comm) {
  return static_cast<const std::string*>(value_of(comm, registry().rules_key));
}

HeldMemory held_memory() {
  const std::scoped_lock lock(registry().mutex);
  HeldMemory all;
  for (const auto& state : registry().states) {
    const std::scoped_lock state_lock(state->mutex);
    all.scratch_bytes += state->scratch.bytes();
    all.residual_bytes += state->residuals.bytes();
  }
  return all;
}

}  // namespace mq
