// The text of the error when an agreement fails.

#include "mpi_quant/engine/agree.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "kernels/memory.hpp"
#include "mpi_quant/plan/cost.hpp"
#include "mpi_quant/policy/scheme.hpp"

namespace mq {
namespace {

static_assert(sizeof(FrameHeader) == kFrameHeaderBytes &&
              sizeof(Hello) == kHelloBytes);  // the model charges for them

std::string_view word(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::bad_policy: return "unusable policy or environment";
    case Code::bad_info: return "unusable info value";
    case Code::bad_argument: return "invalid argument";
    case Code::mismatch: return "mismatch";
    case Code::bad_frame: return "unreadable message";
    case Code::peer_failed: return "failed peer";
    case Code::no_memory: return "out of memory";
    case Code::mpi_failed: return "MPI error";
    case Code::extension: return "error of an extension";
    case Code::timed_out: return "timeout";
    case Code::device_failed: return "error of a GPU";
  }
  return "unknown error";
}

// The function with this form, without a prefix.
std::string_view blocking_function(std::uint8_t form) {
  switch (form) {
    case form_bits(Collective::allreduce, false): return "Allreduce";
    case kGroupForm: return "Allreduce_group";
    case form_bits(Collective::reduce_scatter, false): return "Reduce_scatter_block";
    case form_bits(Collective::reduce_scatter, true): return "Reduce_scatter";
    case form_bits(Collective::allgather, false): return "Allgather";
    case form_bits(Collective::allgather, true): return "Allgatherv";
    case form_bits(Collective::bcast, false): return "Bcast";
    case form_bits(Collective::reduce, false): return "Reduce";
    default: return "unknown function";
  }
}

bool is_by_auto(std::uint8_t kind) {
  return (kind & kKindMask) == kChosen || (kind & kKindMask) == kChosenNonblocking;
}

bool is_rooted(std::uint8_t kind) {
  return std::any_of(kCollectives.begin(), kCollectives.end(),
                     [&](Collective c) { return has_root(c) && (kind & ~kKindMask) == form_bits(c, false); });
}

std::string function_of(std::uint8_t kind) {
  std::string name(blocking_function(static_cast<std::uint8_t>(kind & ~kKindMask)));
  switch (kind & kKindMask) {
    case kIntercepted: return "MPI_" + name;
    case kChosenNonblocking:
    case kNonblocking:
      name[0] = static_cast<char>(name[0] | ('a' - 'A'));
      return "MPIQ_I" + name + " or MPIQ_Start";
    case kInit: return "MPIQ_" + name + "_init";
    default: return "MPIQ_" + name;
  }
}

std::string name_of(const Signature& s) {
  const auto name = std::bit_cast<std::array<char, 16>>(std::array{s.count, s.params_hash});
  return "MPIQ_" + std::string(name.data(), std::find(name.begin(), name.end(), '\0') - name.begin());
}

// "MPIQ_Allreduce: count 1000 f32, onebit/direct, key, call 7" or "out of memory".
std::string describe(const Signature& s) {
  if (s.error_code != 0) return std::string(word(static_cast<Code>(s.error_code)));
  if (s.codec == kFunction) return name_of(s) + ", call " + std::to_string(s.sequence);
  std::string text = s.codec < kSparseReduce ? function_of(s.kind) + ": " : "";
  const unsigned flags = s.element == kOtherElement ? 0 : s.element & (kPairs | kMean);
  const bool is_complex = (flags & kPairs) != 0;
  const std::size_t element = s.element ^ flags;
  text += "count " + std::to_string(is_complex ? s.count / 2 : s.count) + (is_complex ? " complex " : " ");
  text += element < kernels::kElements.size() ? kernels::name(static_cast<kernels::Element>(element))
                                              : "other type";
  if ((flags & kMean) != 0) text += ", avg";
  if (s.codec == kScheme) {
    const auto* const scheme =
        std::find_if(kSchemes.begin(), kSchemes.end(), [&](const Scheme& row) { return row.id == s.plan; });
    return function_of(s.kind) + ": " + text + ", " +
           std::string(scheme == kSchemes.end() ? "unknown scheme" : scheme->name) +
           " (shape and parameters " + std::to_string(s.params_hash % 1000000) + "), key #" +
           std::to_string(s.key) + ", call " + std::to_string(s.sequence);
  }
  if (s.codec >= kSparseReduce)
    return text + ", " +
           (s.codec == kSparseUnion  ? "MPIQ_Sparse_allreduce_union"
            : s.codec == kSparseInit ? "MPIQ_Sparse_allreduce_init"
                                     : "MPIQ_Sparse_allreduce") +
           " (options " + std::to_string(s.params_hash % 1000000) + ")" +
           (s.key ? ", key #" + std::to_string(s.key) : ", no key") + ", call " + std::to_string(s.sequence);
  std::string method = "mpi";
  for (const kernels::Codec& codec : kernels::codecs())
    if (codec.id == s.codec) method = codec.name;
  for (const PlanRow& plan : plans())
    if (plan.id == s.plan) method.append("/").append(plan.name);
  for (const kernels::MemoryRule& rule : kernels::memory_rules())
    if (rule.id == s.memory && &rule != &kernels::carry_rule()) method.append(" memory=").append(rule.name);
  const bool has_parts = s.kind > kKindMask;
  const std::uint64_t parameters = has_parts ? s.params_hash >> 32 : s.params_hash;
  if (is_by_auto(s.kind))
    method += " (chosen by auto, limit #" + std::to_string((s.params_hash & kLimitMask) >> kLimitShift) + ")";
  else if (s.codec != 0)
    method += " (parameters " + std::to_string(parameters % 1000000) + ")";
  else if (s.params_hash >> 32 != 0)
    method += " (operation and type #" + std::to_string((s.params_hash >> 32) % 1000000) + ")";
  const std::uint64_t parts = s.params_hash & kPartsMask;
  if (has_parts)
    method += is_rooted(s.kind) ? ", root " + std::to_string(parts)
                                : ((s.kind & ~kKindMask) == kGroupForm ? ", counts #" : ", recvcounts #") +
                                      std::to_string(parts % 1000000);
  return text + ", " + method + (s.key ? ", key #" + std::to_string(s.key) : ", no key") + ", call " +
         std::to_string(s.sequence);
}

}  // namespace

Signature signature_of_function(std::string_view function) {
  constexpr std::string_view kPrefix = "MPIQ_";
  if (function.starts_with(kPrefix)) function.remove_prefix(kPrefix.size());
  std::array<char, 16> name{};
  function.copy(name.data(), name.size());
  const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(name);
  Signature signature;
  signature.codec = kFunction;
  signature.count = words[0];
  signature.params_hash = words[1];
  return signature;
}

namespace {

bool may_split(std::uint8_t kind) { return (kind & kKindMask) == kIntercepted || is_by_auto(kind); }

}  // namespace

bool may_split(const Signature& a, const Signature& b) {
  if (a.kind != b.kind || !may_split(a.kind) || a.error_code != 0 || b.error_code != 0) return false;
  const auto call_of = [](Signature s) {
    s.codec = 0;
    s.plan = s.memory = 0;
    s.params_hash &= (s.kind > kKindMask ? kPartsMask : 0) | (is_by_auto(s.kind) ? kLimitMask : 0);
    return s;
  };
  return call_of(a) == call_of(b);
}

bool splits(const Hello& summary) { return summary.differs != 0 && may_split(summary.first, summary.other); }

Status agreed_status(const Hello& summary) {
  const auto words = [](int rank, const Signature& s) {
    return "rank " + std::to_string(rank) + ": " + describe(s);
  };
  const Signature &first = summary.first, &other = summary.other;
  if (!summary.differs) {
    if (first.error_code == 0) return {};
    return status_of(static_cast<Code>(first.error_code), [&] { return "every rank: " + describe(first); });
  }
  const bool failed = first.error_code != 0 || other.error_code != 0;
  return status_of(failed ? Code::peer_failed : Code::mismatch, [&] {
    return std::string(failed ? "a rank could not take part" : "the ranks' calls differ") + "; " +
           words(summary.first_rank, first) + "; " + words(summary.other_rank, other);
  });
}

}  // namespace mq
