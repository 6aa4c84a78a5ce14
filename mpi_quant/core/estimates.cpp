#include "mpi_quant/core/estimates.hpp"

namespace mq {
namespace {

// A coin that all ranks throw alike: true with this probability.
bool coin(std::uint64_t random_key, double probability) {
  return static_cast<double>(mixed(random_key + 2) >> 11) * 0x1p-53 < probability;
}

}  // namespace

Status bring_memory(Reduction& reduction, DevicePlacement& vectors, const Residuals::Entry* entry, bool skip,
                    Maxima& maxima) {
  CallMemory& memory = reduction.memory;
  if (memory.ops == nullptr) return {};
  if (memory.rule->measures(memory.params)) MQ_TRY(vectors.memory_factor(reduction, memory.factor));
  if (!memory.keeps_estimates()) return {};
  maxima.sends = 1;
  maxima.lacks = entry == nullptr;
  if (entry == nullptr) return {};
  maxima.stamp = entry->stamp;
  maxima.stamp_complement = ~entry->stamp;
  const kernels::EstimateTerms& terms = memory.terms;
  const bool starts =
      form_of(entry->stamp) != terms.form || (terms.resync > 0 && entry->since >= terms.resync);
  maxima.starts = starts;
  if (starts) return {};
  const bool may_stand = entry->stood < terms.stands;
  if (may_stand && skip) {
    memory.silent = terms.messages;
  } else if (terms.zeta >= 0 && (may_stand || terms.messages > 1)) {
    bool moved = true;
    MQ_TRY(vectors.has_moved(reduction, moved));
    if (!moved) memory.silent = 1;
  }
  maxima.sends = memory.silent < terms.messages;
  return {};
}

Status settle_estimates(Reduction& reduction, DevicePlacement& vectors, const Residuals::Entry* entry,
                        const Maxima& agreed, bool& sends) {
  sends = true;
  CallMemory& memory = reduction.memory;
  if (!memory.keeps_estimates()) return {};
  if (agreed.lacks) {  // an intercepted call whose vector some rank does not know
    memory.ops = nullptr;
    reduction.residual = nullptr;
    return {};
  }
  memory.fresh = agreed.starts || agreed.stamp != ~agreed.stamp_complement ||
                 coin(reduction.random_key, memory.terms.exact_chance);
  if (!memory.fresh) {
    sends = agreed.sends;
    return sends ? Status{} : vectors.deliver_standing(reduction);
  }
  memory.silent = 0;
  const std::size_t bytes = entry->array_bytes();
  if (entry->has_estimates()) MQ_TRY(vectors.zero(reduction.residual, bytes));
  return vectors.zero(reduction.residual + bytes, bytes);
}

void keep_estimates(const Reduction& reduction, Residuals::Entry& entry) {
  const CallMemory& memory = reduction.memory;
  entry.stamp = stamp_of(mixed((memory.fresh ? 0 : entry.stamp) + reduction.random_key), memory.terms.form);
  entry.since = memory.fresh ? 0 : entry.since + 1;
  entry.stood = memory.silent == memory.messages() ? entry.stood + 1 : 0;
}

}  // namespace mq
