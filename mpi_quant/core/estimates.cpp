#include "mpi_quant/core/estimates.hpp"

namespace mq {
namespace {

// A coin that all ranks throw alike: true with this probability.
bool coin(std::uint64_t random_key, double probability) {
  return static_cast<double>(mixed(random_key + 2) >> 11) * 0x1p-53 < probability;
}

}  // namespace

Status measure_feedback(Reduction& reduction, DevicePlacement& vectors, const Residuals::Entry* entry,
                        bool skip, Maxima& maxima) {
  CallFeedback& memory = reduction.memory;
  if (memory.ops == nullptr) return {};
  if (memory.rule->measures(memory.params)) MQ_TRY(vectors.memory_factor(reduction, memory.factor));
  if (!memory.keeps_estimates()) return {};
  maxima.sends = 1;
  maxima.missing = entry == nullptr;
  if (entry == nullptr) return {};
  maxima.version = entry->version;
  maxima.version_complement = ~entry->version;
  const kernels::EstimateTerms& terms = memory.terms;
  const bool starts =
      form_of(entry->version) != terms.form || (terms.resync > 0 && entry->calls_since_exact >= terms.resync);
  maxima.starts = starts;
  if (starts) return {};
  const bool may_skip = entry->calls_skipped < terms.max_skipped;
  if (may_skip && skip) {
    memory.skipped_messages = terms.messages;
  } else if (terms.zeta >= 0 && (may_skip || terms.messages > 1)) {
    bool moved = true;
    MQ_TRY(vectors.has_moved(reduction, moved));
    if (!moved) memory.skipped_messages = 1;
  }
  // An allgather delivers part by part, in its run, also if no rank sends anything.
  maxima.sends = memory.mirrors || memory.skipped_messages < terms.messages;
  return {};
}

Status settle_estimates(Reduction& reduction, DevicePlacement& vectors, const Residuals::Entry* entry,
                        const Maxima& agreed, bool& sends) {
  sends = true;
  CallFeedback& memory = reduction.memory;
  if (!memory.keeps_estimates()) return {};
  if (agreed.missing) {  // an intercepted call whose vector some rank does not know
    memory.ops = nullptr;
    reduction.residual = nullptr;
    return {};
  }
  memory.exact_restart = agreed.starts || agreed.version != ~agreed.version_complement ||
                         coin(reduction.random_key, memory.terms.exact_chance);
  if (!memory.exact_restart) {
    sends = agreed.sends;
    return sends ? Status{} : vectors.deliver_estimates(reduction);
  }
  memory.skipped_messages = 0;
  const std::size_t bytes = entry->array_bytes();
  if (memory.mirrors) return vectors.zero(reduction.residual, bytes);
  if (entry->has_estimates()) MQ_TRY(vectors.zero(reduction.residual, bytes));
  return vectors.zero(reduction.residual + bytes, bytes);
}

void keep_estimates(const Reduction& reduction, Residuals::Entry& entry) {
  const CallFeedback& memory = reduction.memory;
  entry.version =
      version_of(mixed((memory.exact_restart ? 0 : entry.version) + reduction.random_key), memory.terms.form);
  entry.calls_since_exact = memory.exact_restart ? 0 : entry.calls_since_exact + 1;
  entry.calls_skipped = memory.skipped_messages == memory.messages() ? entry.calls_skipped + 1 : 0;
}

}  // namespace mq
