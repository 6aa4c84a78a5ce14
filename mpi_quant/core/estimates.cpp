#include "mpi_quant/core/estimates.hpp"

#include <cstring>

#include "mpi_quant/engine/memory_steps.hpp"

namespace mq {
namespace {

// A coin that all ranks throw alike: true with this probability.
bool coin(std::uint64_t random_key, double probability) {
  return static_cast<double>(mixed(random_key + 2) >> 11) * 0x1p-53 < probability;
}

}  // namespace

void bring_estimates(Reduction& reduction, const Residuals::Entry* entry, bool skip, Maxima& maxima) {
  CallMemory& memory = reduction.memory;
  maxima.sends = 1;
  maxima.lacks = entry == nullptr;
  if (entry == nullptr) return;
  maxima.stamp = entry->stamp;
  maxima.stamp_complement = ~entry->stamp;
  const kernels::EstimateTerms& terms = memory.terms;
  const bool starts =
      form_of(entry->stamp) != terms.form || (terms.resync > 0 && entry->since >= terms.resync);
  maxima.starts = starts;
  if (starts) return;
  const bool may_stand = entry->stood < terms.stands;
  if (may_stand && skip)
    memory.silent = terms.messages;
  else if (terms.zeta >= 0 && (may_stand || terms.messages > 1) && !has_moved(reduction))
    memory.silent = 1;
  maxima.sends = memory.silent < terms.messages;
}

bool settle_estimates(Reduction& reduction, const Residuals::Entry* entry, const Maxima& agreed) {
  CallMemory& memory = reduction.memory;
  if (!memory.keeps_estimates()) return true;
  if (agreed.lacks) {  // an intercepted call whose vector some rank does not know
    memory.ops = nullptr;
    reduction.residual = nullptr;
    return true;
  }
  memory.fresh = agreed.starts || agreed.stamp != ~agreed.stamp_complement ||
                 coin(reduction.random_key, memory.terms.exact_chance);
  if (!memory.fresh) return agreed.sends;
  memory.silent = 0;
  const std::size_t bytes = entry->array_bytes();
  if (entry->has_estimates()) std::memset(reduction.residual, 0, bytes);
  std::memset(reduction.residual + bytes, 0, bytes);
  return true;
}

void keep_estimates(const Reduction& reduction, Residuals::Entry& entry) {
  const CallMemory& memory = reduction.memory;
  entry.stamp = stamp_of(mixed((memory.fresh ? 0 : entry.stamp) + reduction.random_key), memory.terms.form);
  entry.since = memory.fresh ? 0 : entry.since + 1;
  entry.stood = memory.silent == memory.messages() ? entry.stood + 1 : 0;
}

}  // namespace mq
