// What the library keeps for a communicator, in an MPI attribute (registry.hpp). It is made at the first use,
// which is collective. It is freed with the communicator and the last request on it, or when MPI is
// finalized.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/automatic/knowledge.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/call_order.hpp"
#include "mpi_quant/core/channel.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/extension.hpp"
#include "mpi_quant/core/guard.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/device/resources.hpp"
#include "mpi_quant/engine/reduction.hpp"
#include "mpi_quant/memory/identity.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

// What the ranks agreed on at the first use, and the number of calls that the rules were asked about.
struct AgreedPolicy {
  Policy rules;
  Mode mode = Mode::on;     // of the preload library; on if the ranks differ
  bool same_watch = true;   // all ranks have the same mode, and all or none write a report
  std::string comm_name;    // of the user's communicator; empty if it is not the same on all ranks
  std::uint64_t calls = 0;  // calls that the rules were asked about
  // For auto, the list of KnowledgeFile, which may be empty: it chooses by the list. Null: it learns.
  const std::vector<KnownClass>* knowledge = nullptr;
};

// The file of MPIQ_KNOWLEDGE. It is parsed once, for all communicators of the process.
struct KnowledgeFile {
  Result<std::vector<KnownClass>> lines;  // empty without a file
  std::uint64_t hash = 0;                 // of its text, for ranks to compare
};
// Any thread may call it. Throws std::bad_alloc if there is no memory for the lines; the next call tries
// again.
const KnowledgeFile& knowledge_of_environment();

// Memory for calls in flight.
struct Scratch {
  std::size_t host_bytes = 0;  // host memory that the runs of calls hold
  DevicePool devices;          // resources of calls with vectors on GPUs
  std::size_t bytes() const { return host_bytes + devices.bytes(); }
};

// What has to be remembered between calls of an unmodified program.
struct Intercepted {
  Identities identities;                  // for calls that name no key
  std::map<std::uint64_t, Guard> guards;  // by the hash of what the ranks agreed on for guarded calls
};

// Adds what one reduction has sent and encoded.
inline void add(MPIQ_Stats& stats, const Tally& tally) {
  stats.wire_bytes_sent += tally.sent_bytes;
  stats.wire_bytes_received += tally.received_bytes;
  stats.messages_sent += tally.messages_sent;
  stats.nonfinite += tally.nonfinite;
  stats.overflows += tally.overflows;
  stats.encode_s += tally.encode_s;
  stats.decode_s += tally.decode_s;
}
// Counts a call that was reduced by a codec, or failed in it.
inline void count_compressed(MPIQ_Stats& stats, std::size_t n, kernels::Element element, bool ok) {
  stats.elements += n;
  stats.raw_bytes += n * kernels::element_bytes(element);
  stats.compressed_calls += ok;
}

class CommState : public std::enable_shared_from_this<CommState> {
 public:
  // Where the policy of a new state comes from.
  enum class Initial { environment, no_rules };

  // The state of comm, an intracommunicator of at least two ranks. If there is none it is made, which is
  // collective. Null where the library must not act: before MPI_Init, in programs that use sessions only, and
  // once MPI_Finalize has begun. If ranks have different MPIQ_POLICY or versions, the state has an exact
  // mode, see MPIQ_Stats.exact_mode. An error (a policy that cannot be parsed) is one on every rank, and no
  // state is made.
  static Result<CommState*> obtain(MPI_Comm comm, Initial initial);
  // Where obtain() gives null on this rank, and the call cannot be left to MPI: this rank refuses it, with
  // the error `why`, which is the result. Collective over comm, which has never had a state. The other
  // ranks, which are in obtain(), get an error, too.
  static Status decline(MPI_Comm comm, const Status& why);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  // Collective over user_comm, whose state this is. Replaces the policy if all ranks gave the same rules and
  // they can be parsed. Otherwise it is an error on every rank, and the policy stays.
  Status set_policy(MPI_Comm user_comm, std::string_view rules);
  // To be called after a communication error. Messages may still arrive in the buffers. So the state, its
  // buffers and its private communicator are kept for ever and never used again.
  void set_broken(const Status& why);
  // Keeps the private communicator for ever in the same way, because receives stay posted on it. The
  // communicator itself may still work.
  void keep() { kept_ = shared_from_this(); }
  // Gives the private communicator back.
  void close();
  Extension& extension(const ExtensionKind& kind);

  // Held while anything below is used. It is not held while waiting for another rank, except at the first
  // call.
  std::mutex mutex;
  Turns turns;
  AgreedPolicy policy;
  Channel channel;
  CallOrder order;
  Residuals residuals;
  Intercepted intercepted;
  Scratch scratch;
  MPIQ_Stats stats{};
  // One of each kind, in the order of their list.
  std::vector<std::unique_ptr<Extension>> extensions;
  bool orphan = false;                                // the user's communicator is freed
  std::shared_ptr<const KeptHandler> orphan_handler;  // which it had then; null: there was no memory for it
  Status broken;                                      // why this communicator cannot be used any more

 private:
  CommState() = default;

  std::shared_ptr<CommState> kept_;  // refers to this state itself, so that it is never freed
};

}  // namespace mq
