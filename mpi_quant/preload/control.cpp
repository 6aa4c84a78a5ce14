#include "mpi_quant/preload/control.hpp"

#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>

#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/base/stub.h"
#include "mpi_quant/memory/residuals.hpp"

namespace mq {
namespace {

std::atomic<bool> switched_off = false;
std::atomic<int> exact_depth = 0;
std::atomic<std::uint64_t> steps = 0, flushes = 0;

// A key needs no destructor: MPI may be called while the destructors of the thread run.
Key& next_key() {
  thread_local Key key;
  return key;
}

Status set_key(std::string_view key) {
  if (key.empty() || key.size() > Key::kMax)
    return {Code::bad_argument, "MPI_Pcontrol: a key is 1 to 63 characters"};
  next_key() = Key(key);
  return {};
}

Status obey_command(std::string_view command) {
  constexpr std::string_view kKey = "key=";
  if (command.starts_with(kKey)) return set_key(command.substr(kKey.size()));
  if (command == "step") {
    ++steps;
  } else if (command == "flush") {
    ++flushes;
  } else if (command == "exact") {
    ++exact_depth;
  } else if (command == "end" && exact_depth > 0) {
    --exact_depth;
  } else {
    return {Code::bad_argument, "MPI_Pcontrol: unknown command (known: key=..., step, exact, end, flush)"};
  }
  return {};
}

struct Unknown {
  std::mutex mutex;
  UnknownCommands seen;
};
Unknown& unknown() {
  static Immortal<Unknown> u;  // MPI may be called while statics are destroyed
  return *u;
}

void note_unknown(std::string_view command) {
  const std::scoped_lock lock(unknown().mutex);
  UnknownCommands& seen = unknown().seen;
  if (seen.commands++ == 0) command.copy(seen.first.data(), seen.first.size() - 1);
}

}  // namespace

UnknownCommands unknown_commands() noexcept {
  const std::scoped_lock lock(unknown().mutex);
  return unknown().seen;
}

Control control() noexcept { return {switched_off || exact_depth > 0, steps, flushes}; }

Key take_key() noexcept { return std::exchange(next_key(), {}); }

Status obey(int level, const char* command) {
  constexpr int kMostKeys = 1 << 16;
  if (level == MPIQ_PCONTROL && command != nullptr) {
    const Status understood = obey_command(command);
    if (!understood.ok()) note_unknown(command);
    return understood;
  }
  if (level >= MPIQ_PCONTROL * kMostKeys && level < (MPIQ_PCONTROL + 1) * kMostKeys)
    return set_key(std::to_string(level - MPIQ_PCONTROL * kMostKeys));
  if (level == 0 || level == 1) switched_off = level == 0;
  return {};
}

}  // namespace mq
